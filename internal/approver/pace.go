package approver

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/fleet"
)

const (
	// paceBurst judgements of a node are made at once, then one every paceEvery: a node can create
	// requests as fast as it likes, and each costs calls to a cloud that others need too (A09).
	paceBurst = 5
	paceEvery = 10 * time.Second
	// perCluster verdicts of one cluster are in flight at most; the others come again after
	// roomEvery.
	perCluster = 4
	roomEvery  = 100 * time.Millisecond
	// sweepEvery this many judgements the nodes that are at rest are forgotten.
	sweepEvery = 1000
)

// pacer limits how often each node's requests are judged, and how many of a cluster's at a time.
type pacer struct {
	mu       sync.Mutex
	nodes    map[fleet.Key]*rate.Limiter
	clusters map[client.ObjectKey]int
	used     int
}

func newPacer() *pacer {
	return &pacer{nodes: map[fleet.Key]*rate.Limiter{}, clusters: map[client.ObjectKey]int{}}
}

// enter begins a verdict of a cluster, and tells whether there is room for it. Each enter that returns
// true is followed by a leave. A cluster whose API server or cloud hangs keeps few workers busy (A16).
func (p *pacer) enter(cluster client.ObjectKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clusters[cluster] >= perCluster {
		return false
	}
	p.clusters[cluster]++
	return true
}

func (p *pacer) leave(cluster client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clusters[cluster]--; p.clusters[cluster] == 0 {
		delete(p.clusters, cluster)
	}
}

// wait returns how long to wait before the node is judged; 0 means now, and counts.
func (p *pacer) wait(key fleet.Key, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used++; p.used%sweepEvery == 0 {
		p.sweep(now)
	}
	limiter := p.nodes[key]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(paceEvery), paceBurst)
		p.nodes[key] = limiter
	}
	reservation := limiter.ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay > 0 {
		// It comes again; a reservation that is kept would be paid for twice.
		reservation.CancelAt(now)
	}
	return delay
}

// sweep forgets the nodes whose whole burst is there again: a new limiter is the same.
func (p *pacer) sweep(now time.Time) {
	for key, limiter := range p.nodes {
		if limiter.TokensAt(now) >= paceBurst {
			delete(p.nodes, key)
		}
	}
}
