package request_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

// ca is what the tests sign with, as kube-controller-manager would.
type ca struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

var testCA = sync.OnceValue(func() ca {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	cert := must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))))
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return ca{key, cert, pool}
})

// sign does what the Kubernetes signer does (k8s.io/kubernetes v1.36.3, ParseCSR in
// pkg/apis/certificates/helpers.go and CertificateAuthority.Sign in
// pkg/controller/certificates/authority): it takes the first PEM block, copies subject and names,
// and drops every extension.
func (c ca) sign(specRequest []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(specRequest)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber:          big.NewInt(2),
		Subject:               csr.Subject,
		DNSNames:              csr.DNSNames,
		IPAddresses:           csr.IPAddresses,
		EmailAddresses:        csr.EmailAddresses,
		URIs:                  csr.URIs,
		NotBefore:             time.Now().Add(-5 * time.Minute),
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}, c.cert, csr.PublicKey, c.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// checkSigned is the promise of the package: a request that Parse accepts becomes a certificate
// that holds what Parse returned and not one thing more.
func checkSigned(t *testing.T, csr *object, got request.Request) {
	t.Helper()
	cert, err := testCA().sign(csr.Spec.Request)
	if err != nil {
		t.Fatalf("accepted, but cannot be signed: %v", err)
	}
	checkIdentity(t, csr, got, cert)

	names, addrs := map[string]bool{}, map[netip.Addr]bool{}
	for _, n := range cert.DNSNames {
		names[strings.ToLower(n)] = true
	}
	for _, a := range cert.IPAddresses {
		addr, ok := netip.AddrFromSlice(a)
		if !ok {
			t.Fatalf("the certificate has an address of %d bytes", len(a))
		}
		addrs[addr.Unmap()] = true
	}
	if want := slices.Sorted(maps.Keys(names)); !slices.Equal(slices.Sorted(slices.Values(got.DNSNames)), want) {
		t.Errorf("Parse returned the names %q, the certificate has %q", got.DNSNames, want)
	}
	if want := slices.SortedFunc(maps.Keys(addrs), netip.Addr.Compare); !slices.Equal(slices.SortedFunc(slices.Values(got.Addresses), netip.Addr.Compare), want) {
		t.Errorf("Parse returned the addresses %v, the certificate has %v", got.Addresses, want)
	}
	if len(cert.EmailAddresses)+len(cert.URIs) != 0 {
		t.Errorf("the certificate has e-mail addresses %q and URIs %v", cert.EmailAddresses, cert.URIs)
	}
	if n := generalNames(t, cert); n != len(cert.DNSNames)+len(cert.IPAddresses) {
		t.Errorf("the certificate's extension has %d names, %d are understood", n, len(cert.DNSNames)+len(cert.IPAddresses))
	}
	checkHosts(t, got, cert)
}

func checkIdentity(t *testing.T, csr *object, got request.Request, cert *x509.Certificate) {
	t.Helper()
	if cert.Subject.CommonName != csr.Spec.Username || csr.Spec.Username != "system:node:"+got.Node {
		t.Errorf("CN %q, user %q, node %q", cert.Subject.CommonName, csr.Spec.Username, got.Node)
	}
	if !slices.Equal(cert.Subject.Organization, []string{"system:nodes"}) || len(cert.Subject.Names) != 2 {
		t.Errorf("subject %s", cert.Subject)
	}
	if cert.IsCA {
		t.Error("the certificate is a CA")
	}
	if got.Name != csr.Name || got.UID != csr.UID || got.ResourceVersion != csr.ResourceVersion {
		t.Errorf("Parse returned another object: %+v", got)
	}
}

func generalNames(t *testing.T, cert *x509.Certificate) int {
	t.Helper()
	for _, e := range cert.Extensions {
		if e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			var names []asn1.RawValue
			if _, err := asn1.Unmarshal(e.Value, &names); err != nil {
				t.Fatal(err)
			}
			return len(names)
		}
	}
	t.Error("the certificate has no names")
	return 0
}

// checkHosts asks what clients ask: for which hosts is the certificate good?
func checkHosts(t *testing.T, got request.Request, cert *x509.Certificate) {
	t.Helper()
	allowed := map[string]bool{}
	for _, n := range got.DNSNames {
		allowed[n] = true
	}
	for _, a := range got.Addresses {
		allowed[a.String()] = true
	}
	for host := range allowed {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: testCA().pool, DNSName: host}); err != nil {
			t.Errorf("not good for %q, which Parse returned: %v", host, err)
		}
	}
	probes := []string{
		"n1", "n2", "n10", "n1.novalocal", "n2.novalocal", "n1.", "n1.evil.example", "*", "*.novalocal", "localhost",
		"kubernetes", "kubernetes.default.svc", "system:node:n1", "system:nodes",
		"10.0.0.5", "10.0.0.6", "10.96.0.1", "127.0.0.1", "::1", "0.0.0.0", "::", "169.254.169.254", "2001:db8::5", "::10.0.0.5", "::ffff:127.0.0.1",
	}
	for _, n := range got.DNSNames {
		probes = append(probes, "a."+n, n+".evil.example", strings.TrimLeft(n, "abcdefghijklmnopqrstuvwxyz0123456789-"))
	}
	for _, host := range probes {
		if allowed[host] || allowed[strings.TrimSuffix(host, ".")] || host == "" {
			continue
		}
		if addr, err := netip.ParseAddr(host); err == nil && allowed[addr.Unmap().String()] {
			continue
		}
		if err := cert.VerifyHostname(host); err == nil {
			t.Errorf("good for %q, which Parse did not return: %q %v", host, got.DNSNames, got.Addresses)
		}
	}
}

// TestAcceptedIsWhatIsSigned puts requests together at random from good and bad parts, so that the
// parts also meet each other.
func TestAcceptedIsWhatIsSigned(t *testing.T) {
	rnd := mathrand.New(mathrand.NewPCG(1, 2))
	accepted := 0
	const runs = 4000
	for range runs {
		csr := randomRequest(rnd)
		if got, err := request.Parse(csr, request.DefaultMaxExpiration); err == nil {
			accepted++
			checkSigned(t, csr, got)
		}
		if t.Failed() {
			t.Fatalf("with %s", csr.Spec.Request)
		}
	}
	t.Logf("%d of %d accepted", accepted, runs)
	if accepted < runs/20 || accepted > runs*19/20 {
		t.Errorf("%d of %d accepted: nearly all of one kind tests little", accepted, runs)
	}
}

func randomRequest(rnd *mathrand.Rand) *object {
	pick := func(good, bad []asn1.RawValue) asn1.RawValue {
		if rnd.IntN(12) == 0 {
			return bad[rnd.IntN(len(bad))]
		}
		return good[rnd.IntN(len(good))]
	}
	list := func(most int) []asn1.RawValue {
		var all []asn1.RawValue
		for range rnd.IntN(most + 1) {
			all = append(all, pick(goodNames, badNames))
		}
		return all
	}
	subject := nodeSubject("n1")
	if rnd.IntN(4) == 0 {
		subject = nil
		for range 1 + rnd.IntN(4) {
			subject = append(subject, pkix.RelativeDistinguishedNameSET{subjectParts[rnd.IntN(len(subjectParts))]})
		}
	}
	var attributes []attribute
	for range 1 + rnd.IntN(8)/6 {
		var values [][]pkix.Extension
		for range 1 + rnd.IntN(8)/6 {
			var extensions []pkix.Extension
			for range 1 + rnd.IntN(8)/7 {
				extensions = append(extensions, requesttest.SANExtension(list(4)...))
			}
			values = append(values, extensions)
		}
		attributes = append(attributes, extensionRequest(values...))
	}
	text := string(requesttest.PEM(handMade(marshal(subject), attributes...)))
	decoration := decorations[0]
	if rnd.IntN(4) == 0 {
		decoration = decorations[rnd.IntN(len(decorations))]
	}
	return pemOf(decoration(text))
}

var (
	goodNames = []asn1.RawValue{
		dns1, name(2, []byte("N1.novalocal")), name(2, []byte("n2")), name(2, []byte("xn--n1-5ia")), ip5,
		name(7, netip.MustParseAddr("::ffff:10.0.0.5").AsSlice()), name(7, netip.MustParseAddr("2001:db8::5").AsSlice()),
	}
	badNames = []asn1.RawValue{
		name(2, nil), name(2, []byte("*")), name(2, []byte("*.novalocal")), name(2, []byte("n1.")), name(2, []byte("10.0.0.6")),
		name(2, []byte("n1\x00")), name(1, []byte("a@n2")), name(6, []byte("https://n2/")), name(8, []byte{42}), name(7, []byte{127, 0, 0, 1}),
		name(7, []byte{10, 0, 0, 5, 255, 255, 255, 255}), constructed(2, []byte("n2")), constructed(7, []byte{10, 0, 0, 6}), constructed(0, nil),
	}
	subjectParts = []pkix.AttributeTypeAndValue{
		attr(oidCN, "system:node:n1"), attr(oidCN, "system:node:n1"), attr(oidO, "system:nodes"), attr(oidO, "system:nodes"),
		attr(oidCN, text(asn1.TagT61String, "system:node:n1")), attr(oidCN, "system:node:n2"), attr(oidCN, 1),
		attr(oidO, "system:masters"), attr(oidO, 1), attr(oidOU, "x"), attr(oidSerialNumber, "1"),
	}
	decorations = []func(string) string{
		func(s string) string { return s },
		func(s string) string { return "\n" + s + "\n\n" },
		func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		func(s string) string { return strings.Replace(s, "\n", "\nA: b\n\n", 1) },
		func(s string) string { return s + string(requesttest.New("n2").Spec.Request) },
		func(s string) string { return string(requesttest.New("n2").Spec.Request) + s },
		func(s string) string { return strings.Replace(s, "\n", "\n!", 1) + s },
		func(s string) string { return "x" + s },
	}
)
