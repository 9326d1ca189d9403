package request_test

import (
	"bytes"
	"crypto"
	"crypto/dsa" //nolint:staticcheck // that nobody uses it any more is the point
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

func TestSize(t *testing.T) {
	good := string(requesttest.New("n1").Spec.Request)
	padded := func(size int) *object { return pemOf(good + strings.Repeat("\n", size-len(good))) }
	var many []string
	for i := range 60_000 {
		many = append(many, string([]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	runCases(t, []formCase{
		{"A10 64 KiB", padded(request.MaxSize), passes},
		{"A10 one byte more", padded(request.MaxSize + 1), reason.RequestTooLarge},
		{"E22 60000 addresses", requesttest.New("n1", rawIPs(many...)), reason.RequestTooLarge},
		{"E22 1000 addresses", requesttest.New("n1", rawIPs(many[:1000]...)), reason.TooManySANs},
		{"E21 empty", pemOf(""), reason.PEMInvalid},
	})
}

func TestPEM(t *testing.T) {
	der := requesttest.DER("n1")
	good := string(requesttest.PEM(der))
	typed := func(name string) string { return string(pem.EncodeToMemory(&pem.Block{Type: name, Bytes: der})) }
	headers := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der, Headers: map[string]string{"A": "b"}}))
	lines := strings.SplitAfter(good, "\n")
	begin, body, end := lines[0], strings.Join(lines[1:len(lines)-2], ""), lines[len(lines)-2]
	other := string(requesttest.New("n2").Spec.Request)

	runCases(t, []formCase{
		{"E21 good", pemOf(good), passes},
		{"E21 CRLF", pemOf(strings.ReplaceAll(good, "\n", "\r\n")), passes},
		{"E21 white space around", pemOf("\n \t\r\n" + good + "\n\t \r\n"), passes},
		{"E21 no final line break", pemOf(strings.TrimSuffix(good, "\n")), passes},
		{"E21 one long line", pemOf(begin + strings.ReplaceAll(body, "\n", "") + "\n" + end), passes},
		{"E21 body indented", pemOf(begin + strings.ReplaceAll("  "+body, "\n", "\n  ") + "\n" + end), passes},
		{"E21 blank line in the body", pemOf(begin + "\n" + body + "\n" + end), passes},

		{"E21 not PEM", pemOf("hello"), reason.PEMInvalid},
		{"E21 bare DER", pemOf(string(der)), reason.PEMInvalid},
		{"E21 white space only", pemOf(" \n\n"), reason.PEMInvalid},
		{"E21 zero bytes", pemOf(string(make([]byte, 100))), reason.PEMInvalid},
		{"E21 CERTIFICATE", pemOf(typed("CERTIFICATE")), reason.PEMInvalid},
		{"E21 NEW CERTIFICATE REQUEST", pemOf(typed("NEW CERTIFICATE REQUEST")), reason.PEMInvalid},
		{"E21 type in lower case", pemOf(typed("certificate request")), reason.PEMInvalid},
		{"E21 type with escape sequences", pemOf(typed(strings.Repeat("\x1b[31m", 500))), reason.PEMInvalid},
		{"E21 headers", pemOf(headers), reason.PEMInvalid},
		{"E21 two blocks", pemOf(good + other), reason.PEMInvalid},
		{"E21 the same block twice", pemOf(good + good), reason.PEMInvalid},
		{"E21 a certificate after it", pemOf(good + typed("CERTIFICATE")), reason.PEMInvalid},
		{"E21 a certificate before it", pemOf(typed("CERTIFICATE") + good), reason.PEMInvalid},
		{"E21 damaged block before a good one", pemOf(begin + "!!!!\n" + end + good), reason.PEMInvalid},
		{"E21 begin line before a good block", pemOf(begin + good), reason.PEMInvalid},
		{"E21 begin line after a good block", pemOf(good + begin), reason.PEMInvalid},
		{"E21 begin line of two blocks in one line", pemOf(strings.TrimSuffix(begin, "\n") + good), reason.PEMInvalid},
		{"E21 end line before a good block", pemOf(end + good), reason.PEMInvalid},
		{"E21 end line after a good block", pemOf(good + end), reason.PEMInvalid},
		{"E21 text before", pemOf("x\n" + good), reason.PEMInvalid},
		{"E21 text before, in the same line", pemOf("x" + good), reason.PEMInvalid},
		{"E21 byte order mark", pemOf("\ufeff" + good), reason.PEMInvalid},
		{"E21 zero byte before", pemOf("\x00\n" + good), reason.PEMInvalid},
		{"E21 vertical tab before", pemOf("\v\n" + good), reason.PEMInvalid},
		{"E21 text after", pemOf(good + "x"), reason.PEMInvalid},
		{"E21 zero byte after", pemOf(good + "\x00"), reason.PEMInvalid},
		{"E21 text after the end line", pemOf(strings.TrimSuffix(good, "\n") + " x\n"), reason.PEMInvalid},
		{"E21 all indented", pemOf("  " + strings.ReplaceAll(good, "\n", "\n  ")), reason.PEMInvalid},
		{"E21 begin line indented", pemOf(" " + good), reason.PEMInvalid},
		{"E21 end line cut", pemOf(strings.TrimSuffix(good, "-----\n")), reason.PEMInvalid},
		{"E21 no end line", pemOf(begin + body), reason.PEMInvalid},
		{"E21 end line of another type", pemOf(begin + body + "-----END CERTIFICATE-----\n"), reason.PEMInvalid},
		{"E21 bad base64", pemOf(begin + "#" + body + end), reason.PEMInvalid},
		{"E21 zero byte in base64", pemOf(begin + body[:4] + "\x00" + body[4:] + end), reason.PEMInvalid},
		{"E21 many end lines", pemOf(begin + strings.Repeat(end, 1500)), reason.PEMInvalid},

		{"E21 empty block", pemOf(begin + end), reason.RequestUnparsable},
		{"E21 DER cut", derOf(der[:len(der)-1]), reason.RequestUnparsable},
		{"E21 DER with a byte after it", derOf(append(bytes.Clone(der), 0)), reason.RequestUnparsable},
		{"E21 two requests in one block", derOf(append(bytes.Clone(der), der...)), reason.RequestUnparsable},
		{"E21 no DER", derOf([]byte("hello")), reason.RequestUnparsable},
	})
}

// E20: a hostile API server need not have checked the signature.
func TestSignature(t *testing.T) {
	der := requesttest.DER("n1", requesttest.DNS("n1"))
	renamed := bytes.Replace(der, []byte("\x82\x02n1"), []byte("\x82\x02n2"), 1)
	mixed := bytes.Replace(handMade(marshal(nodeSubject("n2"))), []byte(":n2"), []byte(":n1"), 1)
	flipped := bytes.Clone(der)
	flipped[len(flipped)-1] ^= 1
	unknown := bytes.ReplaceAll(handMade(marshal(nodeSubject("n1"))), []byte{6, 3, 43, 101, 112}, []byte{6, 3, 43, 101, 113})
	if bytes.Equal(renamed, der) {
		t.Fatal("the changed request is not changed")
	}
	runCases(t, []formCase{
		{"E20 good", derOf(der), passes},
		{"E20 name changed after signing", derOf(renamed), reason.SignatureInvalid},
		{"E20 subject changed after signing", derOf(mixed), reason.SignatureInvalid},
		{"E20 signature changed", derOf(flipped), reason.SignatureInvalid},
		{"E20 key of an unknown algorithm", derOf(unknown), reason.SignatureInvalid},
	})
}

// wrongSignature is a request whose signature was changed afterwards.
func wrongSignature(key crypto.Signer) []byte {
	der := requesttest.DER("n1", requesttest.Key(key))
	der[len(der)-1] ^= 1
	return der
}

func TestKey(t *testing.T) {
	ec := func(curve elliptic.Curve) *object {
		return requesttest.New("n1", requesttest.Key(must(ecdsa.GenerateKey(curve, rand.Reader))))
	}
	smooth := func(bits int) *object { return requesttest.New("n1", requesttest.Key(newSmoothKey(bits))) }
	runCases(t, []formCase{
		{"E01 ECDSA P-256", ec(elliptic.P256()), passes},
		{"E01 ECDSA P-384", ec(elliptic.P384()), passes},
		{"E01 ECDSA P-521", ec(elliptic.P521()), passes},
		{"E01 ECDSA P-224", ec(elliptic.P224()), reason.KeyNotAllowed},
		{"E01 Ed25519", requesttest.New("n1", requesttest.Key(ed25519.NewKeyFromSeed(make([]byte, 32)))), passes},
		{"E01 RSA 2048", requesttest.New("n1", requesttest.Key(must(rsa.GenerateKey(rand.Reader, 2048)))), passes},
		{"E01 RSA 1024", smooth(1024), reason.KeyNotAllowed},
		{"E01 RSA 2047", smooth(2047), reason.KeyNotAllowed},
		{"E01 RSA 2048, lower edge", smooth(2048), passes},
		{"E01 RSA 4096", smooth(4096), passes},
		{"A10 RSA 16384, upper edge", smooth(16384), passes},
		{"A10 RSA 16385", smooth(16385), reason.KeyNotAllowed},
		// The reason shows what was looked at first: the size before the expensive signature.
		{"A10 RSA 16384, wrong signature", derOf(wrongSignature(newSmoothKey(16384))), reason.SignatureInvalid},
		{"A10 RSA 16385, wrong signature", derOf(wrongSignature(newSmoothKey(16385))), reason.KeyNotAllowed},
		{"E01 DSA", derOf(dsaRequest()), reason.SignatureInvalid},
	})
}

// dsaRequest is one that crypto/x509 still parses, but can neither make nor verify.
func dsaRequest() []byte {
	parameters := marshal(dsa.Parameters{P: big.NewInt(23), Q: big.NewInt(11), G: big.NewInt(4)})
	key := marshal(struct {
		Algorithm struct {
			ID         asn1.ObjectIdentifier
			Parameters asn1.RawValue
		}
		Key asn1.BitString
	}{
		Algorithm: struct {
			ID         asn1.ObjectIdentifier
			Parameters asn1.RawValue
		}{asn1.ObjectIdentifier{1, 2, 840, 10040, 4, 1}, asn1.RawValue{FullBytes: parameters}},
		Key: asn1.BitString{Bytes: marshal(8), BitLength: 24},
	})
	return handMadeOfKey(marshal(nodeSubject("n1")), key, extensionRequest(sanExtension("n1")))
}
