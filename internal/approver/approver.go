// Package approver judges the requests of nodes, one node of one cluster at a time, and reports what
// it decided: an Event on the Machine, a metric, a log line.
//
// It is the only package that knows all the others; each step of a verdict is one of theirs.
package approver

import (
	"context"
	"net/netip"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/fleet"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// verdictTimeout bounds one verdict with all that it asks.
const verdictTimeout = 20 * time.Second

// Requests is where requests come from and approvals go to; *fleet.Fleet is one.
type Requests interface {
	Pending(fleet.Key) (fleet.Pending, bool)
	Get(context.Context, client.ObjectKey, fleet.Pending) (*certificatesv1.CertificateSigningRequest, error)
	Approve(context.Context, client.ObjectKey, *certificatesv1.CertificateSigningRequest, verdict.Approval) error
}

// Owners finds the Machine behind a node; *owner.Finder is one.
type Owners interface {
	Find(ctx context.Context, cluster client.ObjectKey, node string) (owner.Owner, error)
	// Others returns the other Machines of the cluster for which one of the addresses is recorded.
	Others(ctx context.Context, o owner.Owner, addresses []netip.Addr) ([]owner.Owner, error)
}

// Source tells what a machine owns right now. It may use wanted to ask no more than needed, but
// answers about the machine, not about what is wanted. Errors are *reason.Problem.
type Source interface {
	Evidence(ctx context.Context, o owner.Owner, wanted []netip.Addr) (verdict.Evidence, error)
}

// Approver is the reconciler of a node's requests. Make one with New.
type Approver struct {
	options Options
	report  *reporter
	pace    *pacer
}

// Options are what an Approver needs. All fields are required.
type Options struct {
	Requests Requests
	Owners   Owners
	// Sources by the kind of the infrastructure machine.
	Sources map[schema.GroupKind]Source
	// MaxExpiration is the longest lifetime that a request may ask for.
	MaxExpiration time.Duration
	Events        events.EventRecorder
	Metrics       *Metrics
	Clock         clock.PassiveClock
}

// New makes an Approver.
func New(options Options) *Approver {
	return &Approver{options: options, report: newReporter(options.Events, options.Metrics, options.Clock), pace: newPacer()}
}

// decision is one verdict with everything that a report of it needs.
type decision struct {
	request fleet.Pending
	owner   owner.Owner
	// others are the Machines that a requested address was recorded for.
	others  []owner.Owner
	problem reason.Problem
	verdict verdict.Verdict
}

// Reconcile judges the node's newest request and says when to judge it again. It returns no error:
// every failure is a decision of its own with its own delay.
func (a *Approver) Reconcile(ctx context.Context, key fleet.Key) (reconcile.Result, error) {
	pending, ok := a.options.Requests.Pending(key)
	if !ok {
		a.report.forget(key)
		return reconcile.Result{}, nil
	}
	if a.report.settled(key, pending.UID) {
		return reconcile.Result{}, nil
	}
	if !a.pace.enter(key.Cluster) {
		return reconcile.Result{RequeueAfter: spread(roomEvery)}, nil
	}
	defer a.pace.leave(key.Cluster)
	if wait := a.pace.wait(key, a.options.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	judged, cancel := context.WithTimeout(ctx, verdictTimeout)
	defer cancel()
	d := a.decide(judged, key, pending)
	if ctx.Err() != nil {
		// The process is stopping: what failed, failed because of that.
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: a.report.decided(ctx, key, d)}, nil
}

// decide is the whole way of a request, in the order of the design: its own form, its Machine, what
// the machine owns, the comparison, the approval.
func (a *Approver) decide(ctx context.Context, key fleet.Key, pending fleet.Pending) (d decision) {
	d.request = pending
	csr, r, err := a.request(ctx, key, pending)
	// Whatever is wrong with the request is told to its Machine, so the owner is looked up all the
	// same; that costs reads of the management cluster only.
	var notFound error
	if d.owner, notFound = a.options.Owners.Find(ctx, key.Cluster, key.Node); err == nil {
		err = notFound
	}
	if err != nil {
		return d.failed(err)
	}
	evidence, err := a.evidence(ctx, d.owner, r.Addresses)
	if err != nil {
		return d.failed(err)
	}
	if d.others, err = a.lookAtOthers(ctx, d.owner, r.Addresses, &evidence); err != nil {
		return d.failed(err)
	}
	d.verdict = verdict.Judge(r, d.owner.Facts, evidence)
	d.problem = reason.Problem{Reason: d.verdict.Reason}
	if approval, approved := d.verdict.Approval(); approved {
		if err := a.options.Requests.Approve(ctx, key.Cluster, csr, approval); err != nil {
			return d.failed(err)
		}
	}
	return d
}

// request reads and parses the node's request.
func (a *Approver) request(ctx context.Context, key fleet.Key, pending fleet.Pending) (*certificatesv1.CertificateSigningRequest, request.Request, error) {
	csr, err := a.options.Requests.Get(ctx, key.Cluster, pending)
	if err != nil {
		return nil, request.Request{}, err
	}
	r, err := request.Parse(csr, a.options.MaxExpiration)
	if err == nil && r.Node != key.Node {
		err = reason.New(reason.RequestChanged, "it is of another node now")
	}
	return csr, r, err
}

// failed turns an error into a decision. An error that has no reason is a bug of ours; its text may
// be anything, so it is not shown.
func (d decision) failed(err error) decision {
	d.problem = *reason.Of(err, reason.ManagementUnavailable)
	return d
}
