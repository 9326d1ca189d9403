package request

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

const (
	pemType = "CERTIFICATE REQUEST"
	pemMark = "-----BEGIN"

	minRSABits = 2048
	// maxRSABits bounds the time that verifying a signature takes: a key that fills MaxSize would
	// take minutes. No kubelet has one.
	maxRSABits = 16384
)

var (
	oidCommonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidOrganization = asn1.ObjectIdentifier{2, 5, 4, 10}
)

// decode turns spec.request into a PKCS#10 request whose signature and key are good.
func decode(data []byte) (*x509.CertificateRequest, error) {
	der, err := decodePEM(data)
	if err != nil {
		return nil, err
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		// The parser's text may hold bytes of the request; what is wrong with them helps nobody.
		return nil, reason.New(reason.RequestUnparsable, "%d bytes that are not a PKCS#10 request", len(der))
	}
	if key, ok := csr.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
		return nil, reason.New(reason.KeyNotAllowed, "an RSA key of %d bits, at most %d are looked at", key.N.BitLen(), maxRSABits)
	}
	// The API server checks this at creation; one that lies need not (E20).
	if err := csr.CheckSignature(); err != nil {
		return nil, reason.New(reason.SignatureInvalid, "the request is not signed by the key in it")
	}
	if err := checkKey(csr); err != nil {
		return nil, err
	}
	return csr, nil
}

// decodePEM takes exactly one block, without headers, with nothing but white space around it. The
// signer decodes the first block and ignores the rest, so whatever else is there would be approved
// unseen (E21). encoding/pem skips what it does not understand; counting the marks shows it.
func decodePEM(data []byte) ([]byte, error) {
	const white = " \t\r\n"
	if n := bytes.Count(data, []byte(pemMark)); n != 1 {
		return nil, reason.New(reason.PEMInvalid, "%d PEM blocks, expected one", n)
	}
	if !bytes.HasPrefix(bytes.TrimLeft(data, white), []byte(pemMark)) {
		return nil, reason.New(reason.PEMInvalid, "something other than white space before the PEM block")
	}
	block, rest := pem.Decode(data)
	switch {
	case block == nil:
		return nil, reason.New(reason.PEMInvalid, "the PEM block is damaged")
	case block.Type != pemType:
		return nil, reason.New(reason.PEMInvalid, "the PEM block is of type %s, expected %s", reason.Quote(block.Type), pemType)
	case len(block.Headers) > 0:
		return nil, reason.New(reason.PEMInvalid, "the PEM block has headers")
	case len(bytes.Trim(rest, white)) > 0:
		return nil, reason.New(reason.PEMInvalid, "something other than white space after the PEM block")
	}
	return block.Bytes, nil
}

func checkKey(csr *x509.CertificateRequest) error {
	switch key := csr.PublicKey.(type) {
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return nil
		}
		return reason.New(reason.KeyNotAllowed, "an ECDSA key on another curve than P-256, P-384 and P-521")
	case *rsa.PublicKey:
		if key.N.BitLen() >= minRSABits {
			return nil
		}
		return reason.New(reason.KeyNotAllowed, "an RSA key of %d bits, at least %d are needed", key.N.BitLen(), minRSABits)
	case ed25519.PublicKey:
		return nil
	default:
		return reason.New(reason.KeyNotAllowed, "a key that is neither ECDSA nor RSA nor Ed25519")
	}
}

// checkSubject wants exactly one CN, the user's, and exactly one O, system:nodes (E05 to E08, E24).
// It reads the raw sequence: the signer copies the whole subject into the certificate, and the
// parsed form hides attributes, and all but the last of several CNs.
func checkSubject(csr *x509.CertificateRequest, user string) error {
	var subject pkix.RDNSequence
	if rest, err := asn1.Unmarshal(csr.RawSubject, &subject); err != nil || len(rest) > 0 {
		return reason.New(reason.SubjectMismatch, "the subject cannot be read")
	}
	var names, organizations []any
	for _, set := range subject {
		for _, attribute := range set {
			switch {
			case attribute.Type.Equal(oidCommonName):
				names = append(names, attribute.Value)
			case attribute.Type.Equal(oidOrganization):
				organizations = append(organizations, attribute.Value)
			default:
				return reason.New(reason.SubjectMismatch, "the subject has an attribute %s besides CN and O", reason.Quote(attribute.Type.String()))
			}
		}
	}
	if len(names) != 1 || names[0] != user {
		return reason.New(reason.SubjectMismatch, "the subject's CN is %s, expected %s", quoteAll(names), reason.Quote(user))
	}
	if len(organizations) != 1 || organizations[0] != nodesGroup {
		return reason.New(reason.SubjectMismatch, "the subject's O is %s, expected %q", quoteAll(organizations), nodesGroup)
	}
	return nil
}
