package approver

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/fleet"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

const (
	// eventEvery is how often an Event is repeated while the verdict stays the same.
	eventEvery = 30 * time.Minute
	// eventGrace keeps what may pass by itself, a missing fact or somebody who did not answer, out of
	// the Events until it has lasted.
	eventGrace = time.Minute
	// action is the Event field that says what was tried.
	action = "ApproveServingCertificate"
)

// reporter remembers the last decision of each node, so that it reports changes and not repetitions,
// and knows when to try again. State is under one lock; nothing slow happens under it.
type reporter struct {
	events  events.EventRecorder
	metrics *Metrics
	clock   clock.PassiveClock

	mu   sync.Mutex
	last map[fleet.Key]*record
}

// record is what is known of a node's (or, without a node, of a cluster's) last decision.
type record struct {
	request  types.UID
	text     string
	reason   reason.Reason
	since    time.Time
	event    time.Time
	attempts int
	// due is when the request was to be judged again. A Machine that changes before that has it
	// judged at once, which does not use up the schedule.
	due time.Time
}

func newReporter(recorder events.EventRecorder, metrics *Metrics, clock clock.PassiveClock) *reporter {
	return &reporter{events: recorder, metrics: metrics, clock: clock, last: map[fleet.Key]*record{}}
}

// settled tells whether the request was judged for good: its own bytes break a rule.
func (r *reporter) settled(key fleet.Key, request types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[key]
	return last != nil && last.request == request && last.reason.Entry().Final
}

func (r *reporter) forget(key fleet.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}

// decided reports a decision about a node's request and returns when to judge again; 0 means not
// before something changes.
func (r *reporter) decided(ctx context.Context, key fleet.Key, d decision) time.Duration {
	why := d.problem.Reason
	text := describe(key, d)
	changed, event, attempts := r.update(key, d.request.UID, why, text)
	if changed {
		r.metrics.decided(why)
	}
	log := ctrl.LoggerFrom(ctx).WithValues("cluster", key.Cluster, "node", key.Node, "csr", d.request.Name, "reason", why)
	if d.owner.Machine != nil {
		log = log.WithValues("machine", client.ObjectKeyFromObject(d.owner.Machine))
	}
	level := 2
	if changed && why.Outcome() != reason.Ignore {
		level = 0
	}
	log.V(level).Info(headline(why), "detail", detail(d))
	if event {
		r.emit(about(d), d.request.Name, why, text)
		for _, other := range heldBy(d) {
			r.emit(other, d.request.Name, why, text)
		}
	}
	if why.Outcome() == reason.Approve || why.Outcome() == reason.Ignore {
		r.forget(key)
	}
	after := max(delay(why, attempts), d.problem.RetryAfter)
	r.schedule(key, after)
	return after
}

// schedule remembers when the node is judged again.
func (r *reporter) schedule(key fleet.Key, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.last[key]; last != nil {
		last.due = r.clock.Now().Add(after)
	}
}

// unfollowed reports that a cluster cannot be followed, or with nil that it is followed again.
func (r *reporter) unfollowed(ctx context.Context, cluster runtime.Object, name client.ObjectKey, err error) {
	key := fleet.Key{Cluster: name}
	log := ctrl.LoggerFrom(ctx).WithValues("cluster", name)
	if err == nil {
		log.Info("Following the cluster's requests")
		r.forget(key)
		return
	}
	p := reason.Of(err, reason.ClusterUnavailable)
	text := "Requests of this cluster cannot be approved: " + p.Reason.Entry().Meaning + suffix(": ", p.Detail) + ". Next: " + p.Reason.Entry().Remedy + "."
	changed, event, _ := r.update(key, "", p.Reason, text)
	level := 2
	if changed {
		level = 0
	}
	log.V(level).Info("Cannot follow the cluster's requests", "reason", p.Reason, "detail", p.Detail)
	if event && cluster != nil {
		r.emit(cluster, "", p.Reason, text)
	}
}

// update remembers a decision. It tells whether it is another than before, whether an Event is due,
// and how often it was reached in a row.
func (r *reporter) update(key fleet.Key, request types.UID, why reason.Reason, text string) (changed, event bool, attempts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	last := r.last[key]
	if last == nil {
		last = &record{}
		r.last[key] = last
	}
	sameText := last.text == text && last.reason == why
	changed = !sameText || last.request != request
	if !sameText {
		last.event = time.Time{}
	}
	switch {
	case last.reason.Outcome() != why.Outcome():
		last.since, last.attempts = now, 0
	case last.reason != why && why.Outcome() != reason.Error:
		// Another fact is missing or wrong than before, so something moves: look again soon. A fault
		// may change its face with every try, so it does not count as progress.
		last.attempts = 0
	}
	if last.request != request && last.reason == why {
		// The kubelet asked anew: it may just have learnt of its addresses.
		last.attempts = 0
	} else if last.attempts > 0 && now.Before(last.due) {
		last.attempts--
	}
	last.request, last.reason, last.text = request, why, text
	attempts = last.attempts
	last.attempts++
	event = r.eventDue(why, last, now)
	if event {
		last.event = now
	}
	return changed, event, attempts
}

func (r *reporter) eventDue(why reason.Reason, last *record, now time.Time) bool {
	if !last.event.IsZero() {
		return now.Sub(last.event) >= eventEvery
	}
	switch why.Outcome() {
	case reason.Approve, reason.Refuse:
		return true
	case reason.Wait, reason.Error:
		return now.Sub(last.since) >= eventGrace
	}
	return false
}

func (r *reporter) emit(regarding runtime.Object, request string, why reason.Reason, text string) {
	if regarding == nil {
		return
	}
	kind := corev1.EventTypeWarning
	if why.Outcome() == reason.Approve || why.Outcome() == reason.Wait {
		kind = corev1.EventTypeNormal
	}
	if request != "" {
		text = "Request " + reason.Quote(request) + " of " + text
	}
	r.events.Eventf(regarding, nil, kind, string(why), action, "%s", capped(text))
}

// heldBy are the other Machines that hold a requested address too: their operators must know as well.
func heldBy(d decision) []runtime.Object {
	var machines []runtime.Object
	for _, other := range d.others {
		if slices.ContainsFunc(d.verdict.Findings, func(f verdict.Finding) bool { return f.Machine == other.Machine.Name }) {
			machines = append(machines, other.Machine)
		}
	}
	return machines
}

// about is the object that gets the Event: the Machine, else the Cluster, else none.
func about(d decision) runtime.Object {
	switch {
	case d.owner.Machine != nil:
		return d.owner.Machine
	case d.owner.Cluster != nil:
		return d.owner.Cluster
	}
	return nil
}
