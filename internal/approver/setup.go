package approver

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/fleet"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
)

// workers is how many verdicts are in flight at most. Each waits for others' answers nearly all its
// time; perCluster keeps one cluster from taking them all.
const workers = 256

// Config is what the operator chose.
type Config struct {
	// Name of the program in Events, and user agent towards workload clusters.
	Name, UserAgent string
	// Domains are appended to infrastructure machines' names for further accepted names.
	Domains       []string
	MaxExpiration time.Duration
	Sources       map[schema.GroupKind]Source
}

// Setup adds the approver to a manager. The manager's client must read Secrets and unstructured
// objects live, and its cache must hold just the Clusters that are to be served: one that leaves
// the cache is no longer followed.
func Setup(ctx context.Context, mgr ctrl.Manager, config Config, metrics *Metrics) error {
	if err := owner.SetupIndexes(ctx, mgr.GetFieldIndexer(), config.Domains); err != nil {
		return err
	}
	queue := &lateQueue{ready: make(chan struct{})}
	clusters := &clusters{Client: mgr.GetClient(), ready: queue.ready}
	clusters.fleet = fleet.New(fleet.Options{
		Secrets:   mgr.GetClient(),
		Changed:   func(key fleet.Key) { queue.Add(key) },
		Report:    func(cluster client.ObjectKey, err error) { clusters.report(ctx, cluster, err) },
		UserAgent: config.UserAgent,
		Log:       mgr.GetLogger().WithName("fleet"),
	})
	approver := New(Options{
		Requests: clusters.fleet,
		Owners: &owner.Finder{
			Reader:    mgr.GetClient(),
			Mapper:    mgr.GetRESTMapper(),
			Domains:   config.Domains,
			Supported: func(kind schema.GroupKind) bool { return config.Sources[kind] != nil },
		},
		Sources:       config.Sources,
		MaxExpiration: config.MaxExpiration,
		Events:        mgr.GetEventRecorder(config.Name),
		Metrics:       metrics,
		Clock:         clock.RealClock{},
	})
	clusters.reporter = approver.report
	if err := mgr.Add(clusters.fleet); err != nil {
		return err
	}

	err := ctrl.NewControllerManagedBy(mgr).Named("cluster").For(&clusterv1.Cluster{}).Complete(clusters)
	if err != nil {
		return err
	}
	requests, err := controller.NewTyped("request", mgr, controller.TypedOptions[fleet.Key]{
		Reconciler:              approver,
		MaxConcurrentReconciles: workers,
	})
	if err != nil {
		return err
	}
	if err := requests.Watch(source.TypedFunc[fleet.Key](queue.start)); err != nil {
		return err
	}
	// A Machine that appears or changes is often the missing fact: its nodes' requests are judged again.
	return requests.Watch(source.TypedKind(mgr.GetCache(), &clusterv1.Machine{},
		handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, m *clusterv1.Machine) []fleet.Key {
			return pendingNodes(clusters.fleet, m, config.Domains)
		})))
}

// pendingNodes are the nodes that a Machine may be behind and that have a request to judge.
func pendingNodes(requests Requests, m *clusterv1.Machine, domains []string) []fleet.Key {
	var keys []fleet.Key
	names := owner.NodeNames(m, domains)
	if m.Status.NodeRef.IsDefined() {
		names = append(names, m.Status.NodeRef.Name)
	}
	for _, name := range names {
		key := fleet.Key{Cluster: client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, Node: name}
		if _, pending := requests.Pending(key); pending {
			keys = append(keys, key)
		}
	}
	return keys
}

// lateQueue is the work queue of a controller, which exists only once the controller runs.
type lateQueue struct {
	workqueue.TypedRateLimitingInterface[fleet.Key]
	ready chan struct{}
}

func (q *lateQueue) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[fleet.Key]) error {
	q.TypedRateLimitingInterface = queue
	close(q.ready)
	return nil
}

// clusters follows each Cluster in the cache whose control plane has come up.
type clusters struct {
	client.Client
	fleet    *fleet.Fleet
	reporter *reporter
	ready    chan struct{}
}

// Reconcile starts or stops following a cluster.
func (c *clusters) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return reconcile.Result{}, nil
	}
	cluster := &clusterv1.Cluster{}
	if err := c.Get(ctx, request.NamespacedName, cluster); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
		c.fleet.Forget(request.NamespacedName)
		c.reporter.forget(fleet.Key{Cluster: request.NamespacedName})
		return reconcile.Result{}, nil
	}
	// Before, there is nothing to connect to, and trying would only grow the delay of the next try.
	if up := cluster.Status.Initialization.ControlPlaneInitialized; up != nil && *up {
		c.fleet.Follow(request.NamespacedName, cluster.UID)
	}
	return reconcile.Result{}, nil
}

func (c *clusters) report(ctx context.Context, name client.ObjectKey, err error) {
	cluster := &clusterv1.Cluster{}
	if c.Get(ctx, name, cluster) != nil {
		return
	}
	c.reporter.unfollowed(ctx, cluster, name, err)
}
