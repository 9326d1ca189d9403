package approver

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/fleet"
)

const (
	// paceBurst judgements of a node are made at once, then one every paceEvery: a node can create
	// requests as fast as it likes, and each costs calls to a cloud that others need too (A09).
	paceBurst = 5
	paceEvery = 10 * time.Second
	// sweepEvery this many judgements the nodes that are at rest are forgotten.
	sweepEvery = 1000
)

// pacer limits how often each node's requests are judged.
type pacer struct {
	mu    sync.Mutex
	nodes map[fleet.Key]*rate.Limiter
	used  int
}

func newPacer() *pacer { return &pacer{nodes: map[fleet.Key]*rate.Limiter{}} }

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
