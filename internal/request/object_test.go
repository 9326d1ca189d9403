package request_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

type object = certificatesv1.CertificateSigningRequest

func signer(name string) *object {
	return with(func(csr *object) { csr.Spec.SignerName = name })
}

func user(name string) *object {
	return with(func(csr *object) { csr.Spec.Username = name })
}

func groups(names ...string) *object {
	return with(func(csr *object) { csr.Spec.Groups = names })
}

func usages(names ...certificatesv1.KeyUsage) *object {
	return with(func(csr *object) { csr.Spec.Usages = names })
}

func condition(kind certificatesv1.RequestConditionType) *object {
	return with(func(csr *object) {
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: "True"}}
	})
}

func TestNotOurs(t *testing.T) {
	runCases(t, []formCase{
		{"E03 kubelet-serving", signer("kubernetes.io/kubelet-serving"), passes},
		{"E03 kube-apiserver-client", signer("kubernetes.io/kube-apiserver-client"), reason.OtherSigner},
		{"E03 kube-apiserver-client-kubelet", signer("kubernetes.io/kube-apiserver-client-kubelet"), reason.OtherSigner},
		{"E03 example.com/x", signer("example.com/x"), reason.OtherSigner},
		{"E03 no signer", signer(""), reason.OtherSigner},
		{"E03 suffix", signer("kubernetes.io/kubelet-serving2"), reason.OtherSigner},
		{"E03 case", signer("kubernetes.io/Kubelet-Serving"), reason.OtherSigner},
		{"E03 huge name", signer(strings.Repeat("\x1b[2J", 1<<16)), reason.OtherSigner},

		{"E60 denied", condition(certificatesv1.CertificateDenied), reason.AlreadyDecided},
		{"E52 approved without certificate", condition(certificatesv1.CertificateApproved), reason.AlreadyDecided},
		{"E60 failed", condition(certificatesv1.CertificateFailed), reason.AlreadyDecided},
		{"E60 issued", with(func(csr *object) { csr.Status.Certificate = []byte("x") }), reason.AlreadyDecided},
		{"E60 a condition that decides nothing", condition("example.com/Seen"), passes},

		{"E04 node", user("system:node:n1"), passes},
		{"E04 service account", user("system:serviceaccount:x:y"), reason.NotANode},
		{"E04 empty", user(""), reason.NotANode},
		{"E04 prefix only", user("system:node:"), reason.NotANode},
		{"E04 name only", user("n1"), reason.NotANode},
		{"E04 prefix twice", user("system:node:system:node:n1"), reason.NotANode},
		{"E04 prefix in another case", user("System:Node:n1"), reason.NotANode},
		{"E04 upper case", user("system:node:N1"), reason.NotANode},
		{"E04 trailing dot", user("system:node:n1."), reason.NotANode},
		{"E04 slash", user("system:node:n1/../n2"), reason.NotANode},
		{"E04 line break", user("system:node:n1\n"), reason.NotANode},
		{"E04 254 characters", user("system:node:" + strings.Repeat("a", 254)), reason.NotANode},
		{"E04 253 characters", requesttest.New(strings.Repeat("a", 253)), passes},
		{"E04 dots", requesttest.New("n1.example.org"), passes},
		{"E66 localhost.localdomain is the verdict's to refuse", requesttest.New("localhost.localdomain"), passes},
	})
}

func TestGroups(t *testing.T) {
	runCases(t, []formCase{
		{"E06 both", groups("system:nodes", "system:authenticated"), passes},
		{"E06 both and more", groups("x", "system:authenticated", "system:nodes", "y"), passes},
		{"E06 only authenticated", groups("system:authenticated"), reason.GroupsMissing},
		{"E06 only nodes", groups("system:nodes"), reason.GroupsMissing},
		{"E06 none", groups(), reason.GroupsMissing},
		{"E06 another spelling", groups("system:nodes ", "system:Nodes", "system:authenticated"), reason.GroupsMissing},
	})
}

func TestUsages(t *testing.T) {
	const (
		ds = certificatesv1.UsageDigitalSignature
		ke = certificatesv1.UsageKeyEncipherment
		sa = certificatesv1.UsageServerAuth
		ca = certificatesv1.UsageClientAuth
	)
	runCases(t, []formCase{
		{"E01 DS SA", usages(ds, sa), passes},
		{"E01 SA DS", usages(sa, ds), passes},
		{"E01 DS KE SA", usages(ds, ke, sa), passes},
		{"E01 SA KE DS", usages(sa, ke, ds), passes},
		{"E02 none", usages(), reason.UsagesNotAllowed},
		{"E02 DS", usages(ds), reason.UsagesNotAllowed},
		{"E02 SA", usages(sa), reason.UsagesNotAllowed},
		{"E02 KE SA", usages(ke, sa), reason.UsagesNotAllowed},
		{"E02 DS KE", usages(ds, ke), reason.UsagesNotAllowed},
		{"E02 DS CA", usages(ds, ca), reason.UsagesNotAllowed},
		{"E02 DS SA CA", usages(ds, sa, ca), reason.UsagesNotAllowed},
		{"E02 DS KE SA CA", usages(ds, ke, sa, ca), reason.UsagesNotAllowed},
		{"E02 any", usages(ds, sa, certificatesv1.UsageAny), reason.UsagesNotAllowed},
		{"E02 cert sign", usages(ds, sa, certificatesv1.UsageCertSign), reason.UsagesNotAllowed},
		{"E02 duplicate in the short set", usages(ds, sa, sa), reason.UsagesNotAllowed},
		{"E02 duplicate in the long set", usages(ds, ke, ke, sa), reason.UsagesNotAllowed},
		{"E02 duplicate for the third", usages(ds, ds, sa), reason.UsagesNotAllowed},
		{"E02 another spelling", usages("Digital Signature", sa), reason.UsagesNotAllowed},
		{"E02 escape sequences", usages(certificatesv1.KeyUsage(strings.Repeat("\x1b", 1000)), sa), reason.UsagesNotAllowed},
	})
}

// The order of usages is the API server's; judging a request must not change the object.
func TestParseLeavesTheObjectAlone(t *testing.T) {
	csr := requesttest.New("n1", requesttest.DNS("N1", "n1"))
	csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature}
	before := csr.DeepCopy()
	checkParse(t, csr, passes)
	if !reflect.DeepEqual(before, csr) {
		t.Errorf("changed to %+v", csr)
	}
}

func TestExpiration(t *testing.T) {
	const most = 24 * time.Hour
	seconds := func(s int32) *int32 { return &s }
	for _, c := range []struct {
		name  string
		asked *int32
		most  time.Duration
		want  reason.Reason
	}{
		{"E25 unset", nil, most, passes},
		{"E25 unset, nothing allowed", nil, 0, passes},
		{"E25 600", seconds(600), most, passes},
		{"E25 the most", seconds(86400), most, passes},
		{"E25 one second more", seconds(86401), most, reason.ExpirationTooLong},
		{"E25 half a second more", seconds(86400), most - time.Second/2, reason.ExpirationTooLong},
		{"E25 largest number", seconds(1<<31 - 1), most, reason.ExpirationTooLong},
		{"E25 a leap year by default", seconds(366 * 86400), request.DefaultMaxExpiration, passes},
		{"E25 more than a leap year by default", seconds(366*86400 + 1), request.DefaultMaxExpiration, reason.ExpirationTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			csr := requesttest.New("n1")
			csr.Spec.ExpirationSeconds = c.asked
			_, err := request.Parse(csr, c.most)
			switch {
			case err == nil && c.want != passes:
				t.Errorf("accepted, want %s", c.want)
			case err != nil && reason.Of(err, "").Reason != c.want:
				t.Errorf("got %q, want %q", err, c.want)
			}
		})
	}
}

// Node is the filter in front of the queue: it must agree with Parse, and cost nothing.
func TestNode(t *testing.T) {
	for _, c := range []struct {
		name string
		csr  *object
		node string
		want reason.Reason
	}{
		{"E01 honest", requesttest.New("n1"), "n1", passes},
		{"E01 spec.request is not looked at", pemOf("not PEM"), "n1", passes},
		{"E06 groups are not looked at", groups(), "n1", passes},
		{"E03 signer", signer("example.com/x"), "", reason.OtherSigner},
		{"E04 user", user("system:serviceaccount:x:y"), "", reason.NotANode},
	} {
		t.Run(c.name, func(t *testing.T) {
			node, err := request.Node(c.csr)
			if node != c.node {
				t.Errorf("node %q, want %q", node, c.node)
			}
			if err != nil {
				if got := reason.Of(err, "").Reason; got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			} else if c.want != passes {
				t.Errorf("no error, want %s", c.want)
			}
		})
	}
}
