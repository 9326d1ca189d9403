package verdict_test

import (
	"net/netip"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, s := range texts {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

// Every name and address is judged, whatever was found before, and in the order of the request.
func TestFindings(t *testing.T) {
	e := against(evidence(
		holds("10.0.0.5"), holds("10.9.0.5", inactive), holds("192.168.3.4", attachedLater), holds("10.0.0.7"), holds("10.96.0.1"),
	), "m2", holds("10.0.0.7"))
	v := verdict.Judge(asks("n2", "n1", "n3", "10.9.0.5", "10.0.0.6", "10.0.0.5", "192.168.3.4", "10.96.0.1", "10.0.0.7", "2001:db8::5"), n1, e)
	want := []verdict.Finding{
		{SAN: "n2", Reason: reason.NameNotOwned},
		{SAN: "n3", Reason: reason.NameNotOwned},
		{SAN: "10.9.0.5", Reason: reason.PortNotActive, Detail: "its port is DOWN"},
		{SAN: "10.0.0.6", Reason: reason.AddressNotOwned},
		{SAN: "192.168.3.4", Reason: reason.AddressInClusterRange, Detail: "192.168.0.0/16"},
		{SAN: "10.96.0.1", Reason: reason.AddressReserved, Detail: "the API server's service address"},
		{SAN: "10.0.0.7", Reason: reason.AddressHeldByOther, Detail: "also held by Machine m2", Machine: "m2"},
		{SAN: "2001:db8::5", Reason: reason.AddressNotOwned},
	}
	if !reflect.DeepEqual(v.Findings, want) {
		t.Errorf("got  %+v\nwant %+v", v.Findings, want)
	}
	if v.Reason != reason.NameNotOwned {
		t.Errorf("reason %s, want that of the first refusal", v.Reason)
	}
	for _, f := range v.Findings {
		if o := f.Reason.Outcome(); o != reason.Refuse && o != reason.Wait {
			t.Errorf("%s leads to %s", f.Reason, o)
		}
	}
}

// Who reads a refusal wants to see what the machine does have.
func TestVerdictShowsWhatTheMachineHas(t *testing.T) {
	e := evidence(holds("10.0.0.5"), holds("10.9.0.5", inactive), holds("203.0.113.5", floating))
	for _, r := range []request.Request{asks("n1", "10.0.0.5"), asks("n2", "10.0.0.6"), asks()} {
		v := verdict.Judge(r, n1, e)
		if !reflect.DeepEqual(v.Names, n1.Names) || !reflect.DeepEqual(v.Holdings, e.Holdings) {
			t.Errorf("%s: names %v, holdings %+v", v.Reason, v.Names, v.Holdings)
		}
	}
}

// A19: an approval is good for one version of one object, and for nothing else.
func TestApproval(t *testing.T) {
	v := verdict.Judge(asks("n1"), n1, evidence())
	approval, ok := v.Approval()
	if !ok {
		t.Fatalf("no approval: %+v", v)
	}
	for _, c := range []struct {
		name            string
		approval        verdict.Approval
		uid             types.UID
		resourceVersion string
		want            bool
	}{
		{"A19 the judged version", approval, "u1", "7", true},
		{"A19 a later version", approval, "u1", "8", false},
		{"A19 the same version of another object", approval, "u2", "7", false},
		{"A19 no version", approval, "u1", "", false},
		{"A19 no UID", approval, "", "7", false},
		{"A19 nothing", approval, "", "", false},
		{"A19 exchanged", approval, "7", "u1", false},
		{"A19 zero approval", verdict.Approval{}, "u1", "7", false},
		{"A19 zero approval of nothing", verdict.Approval{}, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.approval.Covers(c.uid, c.resourceVersion); got != c.want {
				t.Errorf("covers: %v, want %v", got, c.want)
			}
		})
	}
}

func TestNoApproval(t *testing.T) {
	for _, c := range []struct {
		name    string
		verdict verdict.Verdict
	}{
		{"A19 zero verdict", verdict.Verdict{}},
		{"A19 verdict that says it is approved", verdict.Verdict{Reason: reason.Approved}},
		{"A19 refusal", verdict.Judge(asks("n2"), n1, evidence())},
		{"A19 empty request", verdict.Judge(asks(), n1, evidence())},
		{"A19 request without UID", verdict.Judge(request.Request{ResourceVersion: "7", DNSNames: []string{"n1"}}, n1, evidence())},
		{"A19 request without version", verdict.Judge(request.Request{UID: "u1", DNSNames: []string{"n1"}}, n1, evidence())},
	} {
		t.Run(c.name, func(t *testing.T) {
			approval, ok := c.verdict.Approval()
			if ok {
				t.Error("there is an approval")
			}
			for _, uid := range []types.UID{"", "u1"} {
				for _, version := range []string{"", "7"} {
					if approval.Covers(uid, version) {
						t.Errorf("it covers %q %q", uid, version)
					}
				}
			}
		})
	}
}

// The two pure packages together: what an honest kubelet sends is approved, for the object it is.
func TestParseAndJudge(t *testing.T) {
	csr := requesttest.New("n1", requesttest.DNS("N1"), requesttest.IP("::ffff:10.0.0.5", "203.0.113.5"))
	r, err := request.Parse(csr, request.DefaultMaxExpiration)
	if err != nil {
		t.Fatal(err)
	}
	v := verdict.Judge(r, n1, evidence(holds("10.0.0.5"), holds("203.0.113.5", floating)))
	if approval, ok := v.Approval(); !ok || !approval.Covers(csr.UID, csr.ResourceVersion) {
		t.Errorf("E31 not approved: %+v", v)
	}
	if v := verdict.Judge(r, n1, evidence(holds("10.0.0.5"))); v.Reason != reason.AddressNotOwned {
		t.Errorf("E37 got %s", v.Reason)
	}
}

func TestKind(t *testing.T) {
	for kind, want := range map[verdict.Kind]string{
		verdict.Fixed: "fixed", verdict.Subport: "subport", verdict.Floating: "floating", 0: "invalid", 9: "invalid",
	} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d is %q, want %q", kind, got, want)
		}
	}
}
