package approver

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

func holds(address string, kind verdict.Kind, provisioned bool) verdict.Evidence {
	return verdict.Evidence{Holdings: []verdict.Holding{{Address: netip.MustParseAddr(address), Kind: kind, Provisioned: provisioned}}}
}

// other adds a Machine for which an address of the request is recorded.
func (w *world) other(name string, theirs verdict.Evidence) {
	w.others = append(w.others, owner.Owner{
		Cluster: w.owner.Cluster, Infrastructure: w.owner.Infrastructure,
		Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "magnum-system", Name: name}},
	})
	w.theirs = append(w.theirs, theirs)
}

func TestLookAtOthers(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*world)
		reason reason.Reason
		told   []string // the Machines with an Event
		shared string   // the addresses that others were looked for
		cloud  int
	}{
		{"nobody else is recorded", func(*world) {}, reason.Approved, []string{"m1"}, "10.0.0.5", 1},
		{"E33 two networks", func(w *world) {
			w.csr = requesttest.New("n1", requesttest.IP("10.0.0.5", "10.9.0.5"))
			w.evidence.Holdings = append(w.evidence.Holdings, holds("10.9.0.5", verdict.Fixed, false).Holdings...)
		}, reason.Approved, []string{"m1"}, "10.0.0.5 10.9.0.5", 1},
		{"A24 another holds it too", func(w *world) {
			w.evidence = holds("10.0.0.5", verdict.Fixed, false)
			w.other("m2", holds("10.0.0.5", verdict.Fixed, true))
		}, reason.AddressHeldByOther, []string{"m1", "m2"}, "10.0.0.5", 2},
		{"A24 both attached later", func(w *world) {
			w.evidence = holds("10.0.0.5", verdict.Fixed, false)
			w.other("m2", holds("10.0.0.5", verdict.Fixed, false))
		}, reason.AddressHeldByOther, []string{"m1", "m2"}, "10.0.0.5", 2},
		{"A24 both provisioned", func(w *world) { w.other("m2", holds("10.0.0.5", verdict.Fixed, true)) },
			reason.AddressHeldByOther, []string{"m1", "m2"}, "10.0.0.5", 2},
		{"A24 mine is provisioned, the other's is not", func(w *world) { w.other("m2", holds("10.0.0.5", verdict.Fixed, false)) },
			reason.Approved, []string{"m1"}, "10.0.0.5", 2},
		{"A24 on a subport", func(w *world) {
			w.evidence = holds("10.0.0.5", verdict.Subport, false)
			w.other("m2", holds("10.0.0.5", verdict.Fixed, true))
		}, reason.AddressHeldByOther, []string{"m1", "m2"}, "10.0.0.5", 2},
		{"A24 the record is old: it holds it no longer", func(w *world) { w.other("m2", holds("10.0.0.6", verdict.Fixed, true)) },
			reason.Approved, []string{"m1"}, "10.0.0.5", 2},
		{"A24 the second of two holds it", func(w *world) {
			w.other("m2", holds("10.0.0.6", verdict.Fixed, true))
			w.other("m3", holds("10.0.0.5", verdict.Fixed, true))
		}, reason.AddressHeldByOther, []string{"m1", "m3"}, "10.0.0.5", 3},
		{"the other's server is gone", func(w *world) {
			w.other("m2", verdict.Evidence{})
			w.theirErr = reason.New(reason.ServerNotFound, "")
		}, reason.Approved, []string{"m1"}, "10.0.0.5", 2},
		{"the other's server is deleted", func(w *world) {
			w.other("m2", verdict.Evidence{})
			w.theirErr = reason.New(reason.ServerDeleted, "")
		}, reason.Approved, []string{"m1"}, "10.0.0.5", 2},
		{"the other's server has no ports", func(w *world) {
			w.other("m2", verdict.Evidence{})
			w.theirErr = reason.New(reason.PortsMissing, "")
		}, reason.Approved, []string{"m1"}, "10.0.0.5", 2},
		{"the other's server is another project's: no proof that it holds nothing", func(w *world) {
			w.other("m2", verdict.Evidence{})
			w.theirErr = reason.New(reason.ServerOtherProject, "")
		}, reason.ServerOtherProject, []string{"m1"}, "10.0.0.5", 2},
		{"floating addresses need no look", func(w *world) {
			w.evidence = holds("10.0.0.5", verdict.Floating, true)
			w.other("m2", holds("10.0.0.5", verdict.Floating, true))
		}, reason.Approved, []string{"m1"}, "", 1},
		{"addresses that nobody wants need no look", func(w *world) {
			w.csr = requesttest.New("n1", requesttest.IP())
			w.other("m2", holds("10.0.0.5", verdict.Fixed, true))
		}, reason.Approved, []string{"m1"}, "", 1},
		{"an address on two ports is looked for once", func(w *world) {
			w.evidence.Holdings = append(w.evidence.Holdings, w.evidence.Holdings...)
		}, reason.Approved, []string{"m1"}, "10.0.0.5", 1},
		{"an address of nobody needs no look", func(w *world) {
			w.evidence = holds("10.0.0.6", verdict.Fixed, true)
		}, reason.AddressNotOwned, []string{"m1"}, "", 1},
		{"the records cannot be read", func(w *world) { w.othersErr = reason.New(reason.OwnershipRecordInvalid, "Machines m2") },
			reason.OwnershipRecordInvalid, nil, "10.0.0.5", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			test.change(w)
			w.reconcile(t)
			if n := w.count(test.reason); n != 1 || (len(w.approved) == 1) != (test.reason == reason.Approved) {
				t.Errorf("reason %s counted %d times, approved %v", test.reason, n, w.approved)
			}
			var told []string
			for _, e := range w.events {
				told = append(told, e.about)
				if e.reason != string(test.reason) {
					t.Errorf("Event %+v", e)
				}
				if test.reason == reason.AddressHeldByOther && !strings.Contains(e.note, "10.0.0.5") {
					t.Errorf("the note does not tell the address: %s", e.note)
				}
			}
			if !slices.Equal(told, test.told) {
				t.Errorf("told %q, expected %q", told, test.told)
			}
			var shared []string
			for _, addr := range w.shared {
				shared = append(shared, addr.String())
			}
			if got := strings.Join(shared, " "); got != test.shared {
				t.Errorf("looked for %q, expected %q", got, test.shared)
			}
			if w.cloud != test.cloud {
				t.Errorf("clouds were asked %d times, expected %d", w.cloud, test.cloud)
			}
		})
	}
}

// A24: while the other's cloud does not answer, nothing is known. The cloud says when to come back.
func TestOthersCloudIsUnavailable(t *testing.T) {
	w := newWorld()
	w.other("m2", verdict.Evidence{})
	problem := reason.New(reason.CloudUnavailable, "status 503")
	w.theirErr = problem
	if after := w.reconcile(t); after > 2*time.Second || len(w.approved) > 0 || w.count(reason.CloudUnavailable) != 1 {
		t.Errorf("judged again after %s, approved %v", after, w.approved)
	}
	problem.RetryAfter = 90 * time.Second
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	if after := w.reconcile(t); after != 90*time.Second {
		t.Errorf("judged again after %s, the cloud said 90s", after)
	}
	if len(w.events) != 1 || w.events[0].about != "m1" || !strings.Contains(w.events[0].note, "Machine m2") || !strings.Contains(w.events[0].note, "status 503") {
		t.Errorf("events %+v", w.events)
	}
	if problem.Detail != "status 503" {
		t.Errorf("the source's problem was changed: %q", problem.Detail)
	}
	// It answers, and does not hold the address.
	w.theirErr = nil
	if w.reconcile(t); len(w.approved) != 1 {
		t.Error("not approved")
	}
}

// E59: a shorter wait than our own does not make it shorter.
func TestRetryAfterOfTheOwnCloud(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{time.Millisecond: time.Second, time.Minute: time.Minute} {
		w := newWorld()
		problem := reason.New(reason.CloudUnavailable, "status 429")
		problem.RetryAfter = after
		w.cloudErr = problem
		if got := w.reconcile(t); got < want*8/10 || got > want*12/10 {
			t.Errorf("judged again after %s, expected %s ±20 %%", got, want)
		}
	}
}
