// Package requesttest builds CertificateSigningRequests for tests: what an honest kubelet asks for,
// bent by options. Fields of the object (user, groups, usages, signer) need no option: the
// caller changes them in what New returns. Options are for what is inside spec.request, which is
// signed.
//
// It panics where it cannot build what is asked, as only a wrong test can cause that.
package requesttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net/netip"
	"slices"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Address is what New asks for when no option says otherwise.
const Address = "10.0.0.5"

// Tags of the kinds of subject alternative names (RFC 5280, section 4.2.1.6).
const (
	TagOtherName     = 0
	TagEmail         = 1
	TagDNS           = 2
	TagX400          = 3
	TagDirectoryName = 4
	TagEDIPartyName  = 5
	TagURI           = 6
	TagIP            = 7
	TagRegisteredID  = 8
)

// Option changes what is inside spec.request.
type Option func(*content)

type content struct {
	key        crypto.Signer
	subject    pkix.RDNSequence
	dns, ip    []asn1.RawValue
	extensions []pkix.Extension
}

// DNS replaces the DNS names, which are the node's name alone by default. DNS() asks for none.
func DNS(names ...string) Option {
	return func(c *content) {
		c.dns = nil
		for _, n := range names {
			c.dns = append(c.dns, GeneralName(TagDNS, []byte(n)))
		}
	}
}

// IP replaces the addresses, which are Address alone by default. IP() asks for none. IPv4-mapped
// IPv6 is written as 16 bytes, which crypto/x509 would not do.
func IP(addresses ...string) Option {
	return func(c *content) {
		c.ip = nil
		for _, a := range addresses {
			c.ip = append(c.ip, GeneralName(TagIP, netip.MustParseAddr(a).AsSlice()))
		}
	}
}

// SAN replaces all names and addresses by any kinds of names in any order.
func SAN(names ...asn1.RawValue) Option {
	return func(c *content) { c.dns, c.ip = names, nil }
}

// GeneralName is one name of any kind for SAN.
func GeneralName(tag int, bytes []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: bytes}
}

// Extensions adds extensions after the one with the names and addresses. With DNS() and IP() they
// are the only ones.
func Extensions(extensions ...pkix.Extension) Option {
	return func(c *content) { c.extensions = extensions }
}

// SANExtension is a subjectAltName extension of the given names, for Extensions.
func SANExtension(names ...asn1.RawValue) pkix.Extension {
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: must(asn1.Marshal(names))}
}

// Subject replaces the subject, which is O = system:nodes and CN = the user by default.
func Subject(subject pkix.RDNSequence) Option {
	return func(c *content) { c.subject = subject }
}

// Key replaces the key, which is ECDSA P-256 and the same for all requests of a process by default.
func Key(key crypto.Signer) Option {
	return func(c *content) { c.key = key }
}

// New returns the request of an honest kubelet on the node, as an honest API server stores it.
func New(node string, options ...Option) *certificatesv1.CertificateSigningRequest {
	user := "system:node:" + node
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "csr-" + node,
			UID:             types.UID("uid-of-csr-" + node),
			ResourceVersion: "1",
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    PEM(DER(node, options...)),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			Username:   user,
			Groups:     []string{"system:nodes", "system:authenticated"},
		},
	}
}

// DER returns the PKCS#10 request that New puts into spec.request.
func DER(node string, options ...Option) []byte {
	c := content{
		subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}.ToRDNSequence(),
	}
	DNS(node)(&c)
	IP(Address)(&c)
	for _, o := range options {
		o(&c)
	}
	if c.key == nil {
		c.key = defaultKey()
	}
	template := x509.CertificateRequest{RawSubject: must(asn1.Marshal(c.subject)), ExtraExtensions: c.extensions}
	if names := slices.Concat(c.dns, c.ip); len(names) > 0 {
		template.ExtraExtensions = append([]pkix.Extension{SANExtension(names...)}, c.extensions...)
	}
	return must(x509.CreateCertificateRequest(rand.Reader, &template, c.key))
}

// PEM is how a request stands in spec.request.
func PEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

var defaultKey = sync.OnceValue(func() crypto.Signer {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
})

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
