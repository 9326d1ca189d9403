package request_test

import (
	"bytes"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

// A request that breaks every rule is turned away for the first; with that one mended, for the
// second, and so on. Cheap rules stand before dear ones, and "not ours" before everything, so that
// nothing is said about other people's requests.
func TestOrderOfRules(t *testing.T) {
	decades := int32(1 << 30)
	csr := &certificatesv1.CertificateSigningRequest{}
	csr.Spec.SignerName = "example.com/x"
	csr.Spec.Request = bytes.Repeat([]byte("x"), request.MaxSize+1)
	csr.Spec.Username = "somebody"
	csr.Spec.ExpirationSeconds = &decades
	csr.Status.Certificate = []byte("x")

	wrong := nodeSubject("n2")
	localhost := requesttest.IP("127.0.0.1")
	content := func(options ...requesttest.Option) func() {
		return func() { csr.Spec.Request = requesttest.New("n1", options...).Spec.Request }
	}
	small := newSmoothKey(1024)
	stars := strings.Split(strings.Repeat("*", 65), "")
	email := requesttest.SANExtension(name(requesttest.TagDNS, []byte("*")), name(requesttest.TagEmail, []byte("root@n1")))
	for _, step := range []struct {
		want reason.Reason
		mend func()
	}{
		{reason.OtherSigner, func() { csr.Spec.SignerName = certificatesv1.KubeletServingSignerName }},
		{reason.AlreadyDecided, func() { csr.Status.Certificate = nil }},
		{reason.RequestTooLarge, func() { csr.Spec.Request = []byte("x") }},
		{reason.NotANode, func() { csr.Spec.Username = "system:node:n1" }},
		{reason.GroupsMissing, func() { csr.Spec.Groups = []string{"system:nodes", "system:authenticated"} }},
		{reason.UsagesNotAllowed, func() { csr.Spec.Usages = requesttest.New("n1").Spec.Usages }},
		{reason.PEMInvalid, func() { csr.Spec.Request = requesttest.PEM([]byte("x")) }},
		{reason.RequestUnparsable, func() { csr.Spec.Request = requesttest.PEM(wrongSignature(small)) }},
		{reason.SignatureInvalid, content(requesttest.Key(small), requesttest.Subject(wrong), san(), requesttest.Extensions(email))},
		{reason.KeyNotAllowed, content(requesttest.Subject(wrong), san(), requesttest.Extensions(email))},
		{reason.SubjectMismatch, content(san(), requesttest.Extensions(email))},
		{reason.SANKindNotAllowed, content(requesttest.DNS(stars...), localhost)},
		{reason.TooManySANs, content(requesttest.DNS("*"), localhost)},
		{reason.DNSNameInvalid, content(localhost)},
		{reason.AddressNotAllowed, content()},
		{reason.ExpirationTooLong, func() { csr.Spec.ExpirationSeconds = nil }},
	} {
		checkParse(t, csr, step.want)
		step.mend()
	}
	checkParse(t, csr, passes)
}

// Rules that exclude each other cannot stand in one chain; these are the neighbours left out above.
func TestOrderOfTheRest(t *testing.T) {
	runCases(t, []formCase{
		{"E05 before E18", requesttest.New("n1", requesttest.Subject(nodeSubject("n2")), san()), reason.SubjectMismatch},
		{"E18 before E25", with(func(csr *object) {
			most := int32(1 << 30)
			csr.Spec.ExpirationSeconds = &most
		}, san()), reason.SANMissing},
		{"A10 large key before wrong signature", derOf(wrongSignature(newSmoothKey(16385))), reason.KeyNotAllowed},
		{"E20 before small key", derOf(wrongSignature(newSmoothKey(1024))), reason.SignatureInvalid},
	})
}

// A10: what is malformed must be cheap, whatever its size.
func TestMalformedIsCheap(t *testing.T) {
	const most = 4 << 10
	huge := bytes.Repeat([]byte("MIIB"), 10<<20/4)
	for _, c := range []struct {
		name string
		csr  *object
		want reason.Reason
	}{
		{"A10 10 MB of PEM", with(func(csr *object) { csr.Spec.Request = requesttest.PEM(huge) }), reason.RequestTooLarge},
		{"A10 10 MB of begin lines", pemOf(strings.Repeat("-----BEGIN CERTIFICATE REQUEST-----\n", 300_000)), reason.RequestTooLarge},
		{"A10 10 MB of signer", signer(string(huge)), reason.OtherSigner},
		{"A10 10 MB of user", user("system:node:" + strings.ToLower(string(huge))), reason.NotANode},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkParse(t, c.csr, c.want)
			if got := bytesPerRun(func() { _, _ = request.Parse(c.csr, time.Hour) }); got > most {
				t.Errorf("%d bytes allocated, at most %d are needed", got, most)
			}
		})
	}
	t.Run("A10 64 KiB of begin lines", func(t *testing.T) {
		csr := pemOf(strings.Repeat("-----BEGIN\n", request.MaxSize/11))
		checkParse(t, csr, reason.PEMInvalid)
		if got := bytesPerRun(func() { _, _ = request.Parse(csr, time.Hour) }); got > most {
			t.Errorf("%d bytes allocated, at most %d are needed", got, most)
		}
	})
}

// bytesPerRun is testing.AllocsPerRun for bytes: decoding 10 MB takes few allocations, but large ones.
// It is the least of several runs, because what runs beside the test allocates too.
func bytesPerRun(f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	least := uint64(math.MaxUint64)
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
