package approver

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/fleet"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

// A09: a burst of five, then one in ten seconds, each node for itself.
func TestPacer(t *testing.T) {
	p, now := newPacer(), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for i := range paceBurst {
		if d := p.wait(key, now); d != 0 {
			t.Fatalf("judgement %d waits %s", i, d)
		}
	}
	for range 3 { // asking does not cost
		if d := p.wait(key, now); d != paceEvery {
			t.Fatalf("judgement %d waits %s, expected %s", paceBurst, d, paceEvery)
		}
	}
	other := fleet.Key{Cluster: client.ObjectKey{Namespace: "magnum-system", Name: "c2"}, Node: key.Node}
	if d := p.wait(other, now); d != 0 {
		t.Errorf("the node of the same name in another cluster waits %s", d)
	}
	if d := p.wait(key, now.Add(paceEvery)); d != 0 {
		t.Errorf("ten seconds later it waits %s", d)
	}
	p.sweep(now.Add(2 * paceEvery))
	if len(p.nodes) != 1 {
		t.Errorf("%d nodes remembered, expected the one that is not at rest", len(p.nodes))
	}
	p.sweep(now.Add(time.Hour))
	if len(p.nodes) != 0 {
		t.Errorf("%d nodes remembered after an hour", len(p.nodes))
	}
}

// A09: a node that creates requests as fast as it can is judged as often as its pace allows.
func TestFloodOfOneNode(t *testing.T) {
	w := newWorld()
	for i := range 100 {
		w.csr = requesttest.New("n1", requesttest.DNS("n1"))
		w.csr.UID += "x"
		after := w.reconcile(t)
		if i >= paceBurst && after != paceEvery {
			t.Fatalf("request %d: judged again after %s", i, after)
		}
	}
	if w.cloud != paceBurst {
		t.Errorf("the cloud was asked %d times, expected %d", w.cloud, paceBurst)
	}
}
