// Package fleet keeps one watch on the kubelet-serving requests of every workload cluster, and
// carries the approval back.
//
// A workload cluster is hostile: its kubeconfig may be written by a tenant, and its API server may
// send anything. Kubeconfigs are rebuilt from a short list of fields (Harden), answers are bounded,
// redirects are not followed, and of a request only a few words are kept (Pending); the one that is
// judged is read anew. What a cluster says in an error is never repeated.
//
// Nothing in a workload cluster is trusted to select a Machine: that is package owner's work.
package fleet

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// Key is the unit of work: one node of one cluster.
type Key struct {
	Cluster client.ObjectKey
	Node    string
}

// Fleet is the set of workload clusters that are followed. Make one with New.
type Fleet struct {
	options Options
	limits  limits
	ctx     context.Context
	stop    context.CancelFunc

	mu       sync.Mutex
	clusters map[client.ObjectKey]*connection
	running  sync.WaitGroup
}

// Options are what a Fleet needs. All fields are required.
type Options struct {
	// Secrets reads kubeconfig Secrets live: no Secret is ever cached.
	Secrets client.Reader
	// Changed is called when a node has another request to judge than before, or no longer has one.
	// It must not block.
	Changed func(Key)
	// Report is called when a cluster cannot be followed (a *reason.Problem), on every try, and with
	// nil when it is followed again.
	Report func(client.ObjectKey, error)
	// UserAgent in requests to workload clusters.
	UserAgent string
	Log       logr.Logger
}

// New makes a Fleet that follows nothing yet.
func New(options Options) *Fleet {
	ctx, stop := context.WithCancel(context.Background())
	return &Fleet{options: options, limits: defaultLimits, ctx: ctx, stop: stop, clusters: map[client.ObjectKey]*connection{}}
}

// Follow starts to follow a cluster, until Forget is called or the Fleet stops. Following one that is
// followed already changes nothing; another UID makes it another cluster of the same name, with
// another kubeconfig.
func (f *Fleet) Follow(cluster client.ObjectKey, uid types.UID) {
	if c := f.connection(cluster); c != nil && c.uid != uid {
		f.Forget(cluster)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clusters[cluster] != nil || f.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(f.ctx)
	c := &connection{
		cluster: cluster,
		uid:     uid,
		secrets: f.options.Secrets,
		agent:   f.options.UserAgent,
		log:     f.options.Log.WithValues("cluster", cluster),
		report: func(err error) {
			if ctx.Err() == nil {
				f.options.Report(cluster, err)
			}
		},
		store:  newStore(func(node string) { f.options.Changed(Key{Cluster: cluster, Node: node}) }),
		limits: f.limits,
		stop:   stop,
	}
	f.clusters[cluster] = c
	f.running.Go(func() { c.run(ctx) })
}

// Forget stops following a cluster.
func (f *Fleet) Forget(cluster client.ObjectKey) {
	f.mu.Lock()
	c := f.clusters[cluster]
	delete(f.clusters, cluster)
	f.mu.Unlock()
	if c == nil {
		return
	}
	c.stop()
	// Whoever remembers something about a node is told that it has no request any more.
	c.store.replace(newStore(func(string) {}))
}

// Start waits for the context to end and then stops following every cluster. It makes a Fleet a
// manager's runnable.
func (f *Fleet) Start(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	f.stop()
	f.mu.Unlock()
	f.running.Wait()
	return nil
}

// Pending returns the node's newest request, and false when there is none to decide.
func (f *Fleet) Pending(key Key) (Pending, bool) {
	c := f.connection(key.Cluster)
	if c == nil {
		return Pending{}, false
	}
	return c.store.pending(key.Node)
}

func (f *Fleet) connection(cluster client.ObjectKey) *connection {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clusters[cluster]
}

func (f *Fleet) connectionOf(cluster client.ObjectKey) (*connection, error) {
	if c := f.connection(cluster); c != nil {
		return c, nil
	}
	return nil, reason.New(reason.RequestGone, "the cluster is no longer followed")
}
