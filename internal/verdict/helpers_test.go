package verdict_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// n1 is the owner in most tests: the machine of node n1, a worker.
var n1 = verdict.Owner{
	Names: []string{"n1"},
	Reserved: []verdict.Reserved{
		{Address: addr("10.96.0.1"), What: "the API server's service address"},
		{Address: addr("192.0.2.1"), What: "the cluster's control plane endpoint"},
	},
	ClusterRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")},
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// asks is the parsed request of n1 for names and addresses; what is an address as text is one.
func asks(sans ...string) request.Request {
	r := request.Request{Name: "csr-n1", UID: "u1", ResourceVersion: "7", Node: "n1"}
	for _, s := range sans {
		if a, err := netip.ParseAddr(s); err == nil {
			r.Addresses = append(r.Addresses, a)
		} else {
			r.DNSNames = append(r.DNSNames, s)
		}
	}
	return r
}

// change bends one holding.
type change func(*verdict.Holding)

func attachedLater(h *verdict.Holding) { h.Provisioned = false }
func inactive(h *verdict.Holding)      { h.Inactive = "its port is DOWN" }
func floating(h *verdict.Holding)      { h.Kind = verdict.Floating }
func subport(h *verdict.Holding)       { h.Kind = verdict.Subport }

// holds is a fixed address on a port that the infrastructure provider made.
func holds(address string, changes ...change) verdict.Holding {
	h := verdict.Holding{Address: addr(address), Kind: verdict.Fixed, Provisioned: true}
	for _, c := range changes {
		c(&h)
	}
	return h
}

func evidence(holdings ...verdict.Holding) verdict.Evidence {
	return verdict.Evidence{Holdings: holdings}
}

// against adds what another Machine holds.
func against(e verdict.Evidence, machine string, holdings ...verdict.Holding) verdict.Evidence {
	for _, h := range holdings {
		e.Others = append(e.Others, verdict.OtherHolding{Machine: machine, Holding: h})
	}
	return e
}

// findings are lines of "SAN reason", short for tables.
func findings(v verdict.Verdict) []string {
	var all []string
	for _, f := range v.Findings {
		all = append(all, f.SAN+" "+string(f.Reason))
	}
	return all
}

// judged is a verdict and the findings that it must have. Without findings it must be Approved.
type judged struct {
	name     string
	request  request.Request
	owner    verdict.Owner
	evidence verdict.Evidence
	want     reason.Reason
	findings []string
}

func runJudge(t *testing.T, cases []judged) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := verdict.Judge(c.request, c.owner, c.evidence)
			if v.Reason != c.want {
				t.Errorf("got %s, want %s: %+v", v.Reason, c.want, v.Findings)
			}
			if !slices.Equal(findings(v), c.findings) {
				t.Errorf("findings %q, want %q", findings(v), c.findings)
			}
			if _, ok := v.Approval(); ok != (c.want == reason.Approved) {
				t.Errorf("there is an approval: %v, with reason %s", ok, v.Reason)
			}
		})
	}
}
