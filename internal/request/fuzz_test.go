package request_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

// fuzzUsages are what the bits of a fuzzed bitmask stand for. Two stand there twice.
var fuzzUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth,
	certificatesv1.UsageClientAuth, certificatesv1.UsageAny, certificatesv1.UsageCertSign,
	certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth,
}

const (
	usagesDSSA   = 0b00000101
	usagesDSKESA = 0b00000111
)

// FuzzParse (A11) changes what an API server hands over. Whatever passes must be what would be signed.
func FuzzParse(f *testing.F) {
	for _, csr := range []*object{
		derOf(handMade(marshal(nodeSubject("n1")), extensionRequest(sanExtension("n1")))),
		requesttest.New("n1", requesttest.Key(fixedKey)),
		requesttest.New("n1.example.org", requesttest.Key(fixedKey), requesttest.IP("::ffff:10.0.0.5", "2001:db8::5", "10.0.0.6")),
		requesttest.New("n1", requesttest.Key(fixedKey), requesttest.DNS("N1", "*")),
		pemOf("\n" + string(requesttest.New("n1", requesttest.Key(fixedKey)).Spec.Request) + "\r\n"),
		pemOf("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"),
	} {
		f.Add(csr.Spec.Request, csr.Spec.Username, uint8(usagesDSSA))
		f.Add(csr.Spec.Request, csr.Spec.Username, uint8(usagesDSKESA))
		f.Add(csr.Spec.Request, "system:node:n2", uint8(0xff))
	}
	f.Fuzz(func(t *testing.T, specRequest []byte, username string, usages uint8) {
		csr := requesttest.New("n1", requesttest.Key(fixedKey))
		csr.Spec.Request, csr.Spec.Username, csr.Spec.Usages = specRequest, username, nil
		count := map[certificatesv1.KeyUsage]int{}
		for i, u := range fuzzUsages {
			if usages&(1<<i) != 0 {
				csr.Spec.Usages = append(csr.Spec.Usages, u)
				count[u]++
			}
		}
		accepted := checkFuzzed(t, csr)
		ds, ke, sa := count[certificatesv1.UsageDigitalSignature], count[certificatesv1.UsageKeyEncipherment], count[certificatesv1.UsageServerAuth]
		if accepted && (ds != 1 || sa != 1 || ke > 1 || ds+ke+sa != len(csr.Spec.Usages)) {
			t.Errorf("accepted with the usages %q", csr.Spec.Usages)
		}
	})
}

// FuzzSigned changes the parts of a request and signs the result, as a node would: a change after
// signing, as in FuzzParse, seldom comes past the signature.
func FuzzSigned(f *testing.F) {
	cn, o := attr(oidCN, "system:node:n1"), attr(oidO, "system:nodes")
	subjects := []pkix.RDNSequence{
		nodeSubject("n1"), {{cn, o}}, rdns(o, cn, cn), rdns(o, cn, attr(oidOU, "x")),
		rdns(o, attr(oidCN, text(asn1.TagT61String, "system:node:n1"))), rdns(attr(oidO, 1), cn), {{}, {o}, {cn}},
	}
	lists := [][]asn1.RawValue{
		{dns1, ip5}, {dns1}, {ip5}, {}, goodNames, badNames, {dns1, constructed(2, []byte("n2"))}, {dns1, ip5, name(30, nil)},
	}
	for _, s := range subjects {
		for _, l := range lists {
			f.Add(marshal(s), marshal(l), "n1")
		}
	}
	f.Add(marshal(nodeSubject("n2.x")), append(marshal(lists[0]), 5, 0), "n2.x")
	f.Fuzz(func(t *testing.T, subject, san []byte, node string) {
		names := requesttest.SANExtension()
		names.Value = san
		csr := derOf(handMade(subject, extensionRequest([]pkix.Extension{names})))
		csr.Spec.Username = "system:node:" + node
		checkFuzzed(t, csr)
	})
}

// checkFuzzed tells whether the request was accepted.
func checkFuzzed(t *testing.T, csr *object) bool {
	t.Helper()
	got, err := request.Parse(csr, request.DefaultMaxExpiration)
	if err == nil {
		checkSigned(t, csr, got)
		return true
	}
	var problem *reason.Problem
	if !errors.As(err, &problem) {
		t.Fatalf("error %v is no *reason.Problem", err)
	}
	if entry := problem.Reason.Entry(); problem.Reason != reason.NotANode && (!entry.Final || entry.Outcome != reason.Refuse) {
		t.Errorf("%s is no reason that Parse may give for its content", problem.Reason)
	}
	if len(problem.Detail) > 1000 {
		t.Errorf("the detail has %d bytes", len(problem.Detail))
	}
	return false
}
