package verdict_test

import (
	"fmt"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// TestCollision goes through every combination of what two Machines can hold (A24): an address of n1
// that n2 holds, too. The rule as written in words: refused, unless mine is floating, or the other's
// does not count, or mine alone was made by the infrastructure provider.
func TestCollision(t *testing.T) {
	const address = "10.0.0.5"
	kinds := map[string]change{"fixed": nil, "subport": subport, "floating": floating}
	origins := map[string]change{"provisioned": nil, "attached later": attachedLater}
	states := map[string]change{"active": nil, "inactive": inactive}
	holding := func(changes ...change) verdict.Holding {
		h := holds(address)
		for _, c := range changes {
			if c != nil {
				c(&h)
			}
		}
		return h
	}
	want := func(myKind, myOrigin, otherOrigin, otherState string) reason.Reason {
		switch {
		case myKind == "floating", otherState == "inactive":
			return reason.Approved
		case myOrigin == "provisioned" && otherOrigin == "attached later":
			return reason.Approved
		}
		return reason.AddressHeldByOther
	}
	for myKind, k := range kinds {
		for myOrigin, o := range origins {
			for otherKind, ok := range kinds {
				for otherOrigin, oo := range origins {
					for otherState, os := range states {
						name := fmt.Sprintf("A24 %s %s against %s %s %s", myKind, myOrigin, otherState, otherKind, otherOrigin)
						t.Run(name, func(t *testing.T) {
							e := against(evidence(holding(k, o)), "m2", holding(ok, oo, os))
							if v := verdict.Judge(asks(address), n1, e); v.Reason != want(myKind, myOrigin, otherOrigin, otherState) {
								t.Errorf("got %s %+v", v.Reason, v.Findings)
							}
						})
					}
				}
			}
		}
	}
}

func TestCollisionOfSeveral(t *testing.T) {
	later := holds("10.0.0.5", attachedLater)
	mine := evidence(later)
	heldByOther := []string{"10.0.0.5 AddressHeldByOther"}
	runJudge(t, []judged{
		{"E33 other address of another Machine", asks("10.0.0.5"), n1, against(mine, "m2", holds("10.0.0.6")), reason.Approved, nil},
		{"E09 held by n2, too", asks("10.0.0.5"), n1, against(mine, "m2", holds("10.0.0.5")), reason.AddressHeldByOther, heldByOther},
		{"E09 n2 holds it, n1 does not", asks("10.0.0.6"), n1, against(mine, "m2", holds("10.0.0.6")), reason.AddressNotOwned, []string{"10.0.0.6 AddressNotOwned"}},
		{"A24 the second of the others counts", asks("10.0.0.5"), n1, against(against(mine, "m2", holds("10.0.0.5", inactive)), "m3", later), reason.AddressHeldByOther, heldByOther},
		{"A24 mapped at the other", asks("10.0.0.5"), n1, against(mine, "m2", holds("::ffff:10.0.0.5")), reason.AddressHeldByOther, heldByOther},
		{"A24 mapped in the request", asks("::ffff:10.0.0.5"), n1, against(mine, "m2", later), reason.AddressHeldByOther, []string{"::ffff:10.0.0.5 AddressHeldByOther"}},
		{"A24 my better port wins", asks("10.0.0.5"), n1, against(evidence(later, holds("10.0.0.5")), "m2", later), reason.Approved, nil},
		{"A24 my inactive port does not win", asks("10.0.0.5"), n1, against(evidence(later, holds("10.0.0.5", inactive)), "m2", later), reason.AddressHeldByOther, heldByOther},
		{"A28 floating and fixed, the floating one counts", asks("10.0.0.5"), n1, against(evidence(holds("10.0.0.5", floating), holds("10.0.0.5")), "m2", holds("10.0.0.5")), reason.Approved, nil},
		{"A28 floating and fixed, in the other order", asks("10.0.0.5"), n1, against(evidence(holds("10.0.0.5"), holds("10.0.0.5", floating)), "m2", holds("10.0.0.5")), reason.Approved, nil},
		{"A28 both attached later", asks("10.0.0.5"), n1, against(evidence(later, holds("10.0.0.5", floating, attachedLater)), "m2", later), reason.Approved, nil},
		{"A08 the cluster's range comes first", asks("192.168.3.4"), n1, against(evidence(holds("192.168.3.4", attachedLater)), "m2", holds("192.168.3.4")), reason.AddressInClusterRange, []string{"192.168.3.4 AddressInClusterRange"}},
		{"A24 a port that does not count comes first", asks("10.0.0.5"), n1, against(evidence(holds("10.0.0.5", inactive)), "m2", later), reason.PortNotActive, []string{"10.0.0.5 PortNotActive"}},
	})
}

func TestCollisionNamesTheOther(t *testing.T) {
	e := against(evidence(holds("10.0.0.5"), holds("10.9.0.5")), "m2", holds("10.0.0.5"))
	v := verdict.Judge(asks("10.9.0.5", "10.0.0.5", "10.0.0.6"), n1, against(e, "m3", holds("10.0.0.5")))
	if len(v.Findings) != 2 {
		t.Fatalf("findings %+v", v.Findings)
	}
	if f := v.Findings[0]; f.Machine != "m2" || f.Detail != "also held by Machine m2" {
		t.Errorf("the finding does not name the Machine: %+v", f)
	}
	if f := v.Findings[1]; f.Machine != "" {
		t.Errorf("a finding that is about no other Machine names one: %+v", f)
	}
}
