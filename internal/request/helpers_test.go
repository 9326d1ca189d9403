package request_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"unicode"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

// passes stands for "no reason" in tables.
const passes reason.Reason = ""

// formCase is one request and the reason it is turned away for. The name begins with the id of the
// case or attack that it is about.
type formCase struct {
	name string
	csr  *certificatesv1.CertificateSigningRequest
	want reason.Reason
}

func runCases(t *testing.T, cases []formCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { checkParse(t, c.csr, c.want) })
	}
}

// checkParse also holds every refusal to what is promised of all of them: nothing of the request
// comes back, and the words are short and safe to show.
func checkParse(t *testing.T, csr *certificatesv1.CertificateSigningRequest, want reason.Reason) request.Request {
	t.Helper()
	got, err := request.Parse(csr, request.DefaultMaxExpiration)
	if err == nil {
		if want != passes {
			t.Fatalf("accepted as %+v, want %s", got, want)
		}
		return got
	}
	var problem *reason.Problem
	if !errors.As(err, &problem) {
		t.Fatalf("error %v is no *reason.Problem", err)
	}
	if problem.Reason != want {
		t.Fatalf("got %q, want %q", err, want)
	}
	if !reflect.DeepEqual(got, request.Request{}) {
		t.Errorf("a refused request came back: %+v", got)
	}
	if len(problem.Detail) > 1000 {
		t.Errorf("the detail has %d bytes", len(problem.Detail))
	}
	if strings.ContainsFunc(problem.Detail, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the detail holds control characters: %q", problem.Detail)
	}
	return request.Request{}
}

// with changes fields of the object around an honest request.
func with(change func(*certificatesv1.CertificateSigningRequest), options ...requesttest.Option) *certificatesv1.CertificateSigningRequest {
	csr := requesttest.New("n1", options...)
	change(csr)
	return csr
}

// pemOf is the honest object around any spec.request.
func pemOf(request string) *certificatesv1.CertificateSigningRequest {
	return with(func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Request = []byte(request) })
}

func derOf(der []byte) *certificatesv1.CertificateSigningRequest {
	return pemOf(string(requesttest.PEM(der)))
}

// fixedKey signs hand-made requests: fast, and equal in every run, so that fuzz inputs stay valid.
var fixedKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

var oidExtensionRequest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}

// attribute is an attribute of a PKCS#10 request. An honest request has one, of one value.
type attribute struct {
	ID     asn1.ObjectIdentifier
	Values []asn1.RawValue `asn1:"set"`
}

// extensionRequest is the attribute that holds extensions, one list for each value.
func extensionRequest(values ...[]pkix.Extension) attribute {
	a := attribute{ID: oidExtensionRequest}
	for _, v := range values {
		a.Values = append(a.Values, asn1.RawValue{FullBytes: marshal(v)})
	}
	return a
}

// handMade builds and signs a request from parts that crypto/x509 would not put together.
func handMade(subject []byte, attributes ...attribute) []byte {
	return handMadeOfKey(subject, must(x509.MarshalPKIXPublicKey(fixedKey.Public())), attributes...)
}

// handMadeOfKey puts any public key into a request that fixedKey signs.
func handMadeOfKey(subject, publicKey []byte, attributes ...attribute) []byte {
	var content []byte
	for _, a := range attributes {
		content = append(content, marshal(a)...)
	}
	tbs := marshal(struct {
		Version    int
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Attributes asn1.RawValue
	}{
		Subject:    asn1.RawValue{FullBytes: subject},
		PublicKey:  asn1.RawValue{FullBytes: publicKey},
		Attributes: asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: content},
	})
	return marshal(struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		TBS:       asn1.RawValue{FullBytes: tbs},
		Algorithm: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 112}},
		Signature: asn1.BitString{Bytes: ed25519.Sign(fixedKey, tbs), BitLength: 8 * ed25519.SignatureSize},
	})
}

func nodeSubject(node string) pkix.RDNSequence {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}.ToRDNSequence()
}

// smoothKey is an RSA key whose modulus is the product of many small primes: made and used in
// milliseconds at any size, where an honest key of 16384 bits takes minutes. Its signatures verify.
type smoothKey struct {
	public rsa.PublicKey
	primes []*big.Int
}

func newSmoothKey(bits int) *smoothKey {
	const primeBits = 64
	key := &smoothKey{public: rsa.PublicKey{N: big.NewInt(1), E: 65537}}
	for key.public.N.BitLen() < bits {
		rest := bits - key.public.N.BitLen()
		last := rest < 2*primeBits
		size := primeBits
		if last {
			size = rest
		}
		p := must(rand.Prime(rand.Reader, size))
		n := new(big.Int).Mul(key.public.N, p)
		switch {
		case last && n.BitLen() != bits: // one bit short
		case new(big.Int).Mod(key.public.N, p).Sign() == 0: // twice the same prime
		case new(big.Int).Mod(p, big.NewInt(65537)).Cmp(big.NewInt(1)) == 0: // e has no inverse
		default:
			key.public.N, key.primes = n, append(key.primes, p)
		}
	}
	return key
}

func (k *smoothKey) Public() crypto.PublicKey { return &k.public }

// Sign makes a PKCS #1 v1.5 signature, prime by prime, and puts it together by the Chinese
// remainder theorem.
func (k *smoothKey) Sign(_ io.Reader, digest []byte, _ crypto.SignerOpts) ([]byte, error) {
	info := marshal(struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}{pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}, Parameters: asn1.NullRawValue}, digest})
	size := k.public.Size()
	padded := "\x00\x01" + strings.Repeat("\xff", size-3-len(info)) + "\x00" + string(info)
	message := new(big.Int).SetBytes([]byte(padded))

	one, e := big.NewInt(1), big.NewInt(int64(k.public.E))
	signature := new(big.Int)
	for _, p := range k.primes {
		d := new(big.Int).ModInverse(e, new(big.Int).Sub(p, one))
		root := new(big.Int).Exp(new(big.Int).Mod(message, p), d, p)
		rest := new(big.Int).Div(k.public.N, p)
		root.Mul(root, rest).Mul(root, new(big.Int).ModInverse(rest, p))
		signature.Add(signature, root)
	}
	return signature.Mod(signature, k.public.N).FillBytes(make([]byte, size)), nil
}

func marshal(v any) []byte { return must(asn1.Marshal(v)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
