package approver

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/fleet"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

var (
	kind = schema.GroupKind{Group: "infrastructure.cluster.x-k8s.io", Kind: "OpenStackMachine"}
	key  = fleet.Key{Cluster: client.ObjectKey{Namespace: "magnum-system", Name: "c1"}, Node: "n1"}
)

// world is everything around the approver, honest until a test changes it.
type world struct {
	csr      *certificatesv1.CertificateSigningRequest
	getErr   error
	owner    owner.Owner
	ownerErr error
	evidence verdict.Evidence
	cloudErr error
	// What other Machines hold, and what they were asked about.
	others    []owner.Owner
	theirs    []verdict.Evidence
	theirErr  error
	othersErr error
	shared    []netip.Addr
	cloud     int // how often the source was asked
	approve   func(*certificatesv1.CertificateSigningRequest, verdict.Approval) error
	approved  []string

	events   []event
	clock    *clocktesting.FakePassiveClock
	registry *prometheus.Registry
	approver *Approver
}

type event struct{ about, kind, reason, note string }

func newWorld() *world {
	w := &world{
		csr: requesttest.New("n1", requesttest.DNS("n1"), requesttest.IP("10.0.0.5")),
		owner: owner.Owner{
			Cluster:        &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "magnum-system", Name: "c1"}},
			Machine:        &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "magnum-system", Name: "m1"}},
			Infrastructure: &unstructured.Unstructured{},
			Facts:          verdict.Owner{Names: []string{"n1"}},
		},
		evidence: verdict.Evidence{Holdings: []verdict.Holding{{Address: netip.MustParseAddr("10.0.0.5"), Kind: verdict.Fixed, Provisioned: true}}},
		clock:    clocktesting.NewFakePassiveClock(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)),
		registry: prometheus.NewRegistry(),
	}
	w.owner.Infrastructure.SetGroupVersionKind(kind.WithVersion("v1beta1"))
	w.approver = New(Options{
		Requests: w, Owners: w, Sources: map[schema.GroupKind]Source{kind: w},
		MaxExpiration: request.DefaultMaxExpiration, Events: w, Metrics: NewMetrics(w.registry), Clock: w.clock,
	})
	return w
}

func (w *world) Pending(k fleet.Key) (fleet.Pending, bool) {
	if w.csr == nil || k != key {
		return fleet.Pending{}, false
	}
	return fleet.Pending{Name: w.csr.Name, UID: w.csr.UID, ResourceVersion: w.csr.ResourceVersion}, true
}

func (w *world) Get(context.Context, client.ObjectKey, fleet.Pending) (*certificatesv1.CertificateSigningRequest, error) {
	return w.csr, w.getErr
}

func (w *world) Approve(_ context.Context, _ client.ObjectKey, csr *certificatesv1.CertificateSigningRequest, a verdict.Approval) error {
	if w.approve != nil {
		if err := w.approve(csr, a); err != nil {
			return err
		}
	}
	if !a.Covers(csr.UID, csr.ResourceVersion) {
		panic("approved without an approval")
	}
	w.approved = append(w.approved, csr.Name)
	return nil
}

func (w *world) Find(context.Context, client.ObjectKey, string) (owner.Owner, error) {
	return w.owner, w.ownerErr
}

func (w *world) Others(_ context.Context, _ owner.Owner, addresses []netip.Addr) ([]owner.Owner, error) {
	w.shared = addresses
	return w.others, w.othersErr
}

func (w *world) Evidence(_ context.Context, o owner.Owner, _ []netip.Addr) (verdict.Evidence, error) {
	w.cloud++
	for i, other := range w.others {
		if o.Machine == other.Machine {
			return w.theirs[i], w.theirErr
		}
	}
	return w.evidence, w.cloudErr
}

func (w *world) Eventf(regarding, _ runtime.Object, kind, why, action, note string, args ...any) {
	if note != "%s" || action == "" {
		panic("an Event's note must not be a format")
	}
	w.events = append(w.events, event{about: regarding.(client.Object).GetName(), kind: kind, reason: why, note: args[0].(string)})
}

func (w *world) reconcile(t *testing.T) time.Duration {
	t.Helper()
	result, err := w.approver.Reconcile(t.Context(), key)
	if err != nil {
		t.Fatalf("Reconcile returned an error, and so would retry by another schedule: %v", err)
	}
	return result.RequeueAfter
}

func (w *world) count(r reason.Reason) int {
	return int(testutil.ToFloat64(w.approver.options.Metrics.decisions.WithLabelValues(r.Outcome().String(), string(r))))
}

// E62: requests are as old as they like, by whatever clock: nothing is refused for its age.
func TestClock(t *testing.T) {
	for _, off := range []time.Duration{-3 * time.Hour, 3 * time.Hour, 1000 * time.Hour} {
		w := newWorld()
		w.csr.CreationTimestamp = metav1.NewTime(w.clock.Now())
		w.clock.SetTime(w.clock.Now().Add(off))
		w.reconcile(t)
		if len(w.approved) != 1 {
			t.Errorf("not approved with a clock that is off by %s", off)
		}
	}
}

func TestApprove(t *testing.T) {
	w := newWorld()
	if after := w.reconcile(t); after != 0 {
		t.Errorf("judged again after %s", after)
	}
	if len(w.approved) != 1 || w.cloud != 1 || w.count(reason.Approved) != 1 {
		t.Errorf("approved %v, cloud asked %d times, counted %d", w.approved, w.cloud, w.count(reason.Approved))
	}
	if len(w.events) != 1 || w.events[0].about != "m1" || w.events[0].reason != "Approved" || w.events[0].kind != "Normal" {
		t.Errorf("events: %+v", w.events)
	}
}

func TestNotApproved(t *testing.T) {
	problem := func(r reason.Reason) error { return reason.New(r, "detail") }
	for _, test := range []struct {
		name   string
		change func(*world)
		reason reason.Reason
		about  string // whom the Event is about; empty: no Event yet
		cloud  int
		after  time.Duration // 0: never again
	}{
		{"E20 malformed: no cloud call, never again", func(w *world) { w.csr.Spec.Request = []byte("x") }, reason.PEMInvalid, "m1", 0, 0},
		{"malformed and no Machine: the Cluster is told", func(w *world) {
			w.csr.Spec.Request = []byte("x")
			w.owner.Machine, w.ownerErr = nil, problem(reason.NoMachine)
		}, reason.PEMInvalid, "c1", 0, 0},
		{"E57 no Machine: no cloud call", func(w *world) { w.owner.Machine, w.ownerErr = nil, problem(reason.NoMachine) }, reason.NoMachine, "", 0, 15 * time.Second},
		{"name mismatch: the linked Machine is told", func(w *world) { w.ownerErr = problem(reason.NameMismatch) }, reason.NameMismatch, "m1", 0, 15 * time.Second},
		{"E42 address of nobody", func(w *world) { w.evidence = verdict.Evidence{} }, reason.AddressNotOwned, "m1", 1, 15 * time.Second},
		{"E68 server not found", func(w *world) { w.cloudErr = problem(reason.ServerNotFound) }, reason.ServerNotFound, "m1", 1, 15 * time.Second},
		{"E59 cloud unavailable", func(w *world) { w.cloudErr = problem(reason.CloudUnavailable) }, reason.CloudUnavailable, "", 1, time.Second},
		{"an error without a reason is a fault, not a fact", func(w *world) { w.cloudErr = errors.New("canary") }, reason.ManagementUnavailable, "", 1, time.Second},
		{"E61 changed between verdict and approval", func(w *world) {
			w.approve = func(*certificatesv1.CertificateSigningRequest, verdict.Approval) error {
				return problem(reason.RequestChanged)
			}
		}, reason.RequestChanged, "", 1, time.Second},
		{"E61 gone between verdict and approval", func(w *world) {
			w.approve = func(*certificatesv1.CertificateSigningRequest, verdict.Approval) error {
				return problem(reason.RequestGone)
			}
		}, reason.RequestGone, "", 1, time.Minute},
		{"E60 decided meanwhile", func(w *world) {
			w.csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}, reason.AlreadyDecided, "", 0, 0},
		{"workload cluster unavailable", func(w *world) { w.csr = requesttest.New("n1"); w.getErr = problem(reason.ClusterUnavailable) }, reason.ClusterUnavailable, "", 0, time.Second},
		{"another node's request under the key", func(w *world) { w.csr = requesttest.New("n2", requesttest.DNS("n2")) }, reason.RequestChanged, "", 0, time.Second},
		{"no source for the kind", func(w *world) {
			w.owner.Infrastructure.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: "v1", Kind: "OtherMachine"})
		}, reason.InfrastructureNotSupported, "m1", 0, 15 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			test.change(w)
			after := w.reconcile(t)
			if len(w.approved) > 0 {
				t.Fatalf("approved %v", w.approved)
			}
			if n := w.count(test.reason); n != 1 {
				t.Errorf("reason %s counted %d times", test.reason, n)
			}
			if w.cloud != test.cloud {
				t.Errorf("the cloud was asked %d times, expected %d", w.cloud, test.cloud)
			}
			if after < test.after*8/10 || after > test.after*12/10 {
				t.Errorf("judged again after %s, expected %s ±20 %%", after, test.after)
			}
			switch {
			case test.about == "" && len(w.events) > 0:
				t.Errorf("Event %+v", w.events)
			case test.about != "" && (len(w.events) != 1 || w.events[0].about != test.about || w.events[0].reason != string(test.reason) || w.events[0].kind != "Warning"):
				t.Errorf("events %+v, expected one about %s", w.events, test.about)
			}
			for _, e := range w.events {
				if strings.Contains(e.note, "canary") || !strings.Contains(e.note, test.reason.Entry().Meaning) || !strings.Contains(e.note, test.reason.Entry().Remedy) {
					t.Errorf("note: %s", e.note)
				}
			}
		})
	}
}

// Requests of the same bytes are never judged twice when the bytes are what is wrong.
func TestFinalRefusalIsSettled(t *testing.T) {
	w := newWorld()
	w.csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}
	w.reconcile(t)
	w.getErr = errors.New("must not be read again")
	w.reconcile(t)
	if len(w.events) != 1 || w.count(reason.UsagesNotAllowed) != 1 || w.count(reason.ManagementUnavailable) != 0 {
		t.Errorf("events %+v, read again %d times", w.events, w.count(reason.ManagementUnavailable))
	}
	// The node's next request is another one.
	w.csr, w.getErr = requesttest.New("n1", requesttest.DNS("n1")), nil
	w.csr.UID = "another"
	w.reconcile(t)
	if len(w.approved) != 1 {
		t.Error("the next request was not judged")
	}
}

// E58: a mismatch that stays is judged by a schedule that slows down, and told once in half an hour.
func TestRetrySchedule(t *testing.T) {
	w := newWorld()
	w.evidence = verdict.Evidence{}
	for i, want := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		after := w.reconcile(t)
		if after < want*8/10 || after > want*12/10 {
			t.Errorf("retry %d after %s, expected %s ±20 %%", i, after, want)
		}
		w.clock.SetTime(w.clock.Now().Add(after))
	}
	if len(w.events) != 1 || w.count(reason.AddressNotOwned) != 1 {
		t.Errorf("events %+v, counted %d", w.events, w.count(reason.AddressNotOwned))
	}
	w.clock.SetTime(w.clock.Now().Add(30 * time.Minute))
	w.reconcile(t)
	if len(w.events) != 2 {
		t.Errorf("%d events after half an hour, expected 2", len(w.events))
	}

	// E35: what was missing appears; the next look approves, and the Event says so.
	w.evidence = newWorld().evidence
	w.reconcile(t)
	if len(w.approved) != 1 || w.events[len(w.events)-1].reason != "Approved" {
		t.Errorf("approved %v, events %+v", w.approved, w.events)
	}
}

// A Machine that changes has its node's request judged at once, which does not use up the schedule:
// while a machine is provisioned it changes often, and that is when its ports become ACTIVE.
func TestMachineChangesKeepTheSchedule(t *testing.T) {
	w := newWorld()
	w.evidence = verdict.Evidence{}
	for range paceBurst - 1 {
		if after := w.reconcile(t); after > 18*time.Second {
			t.Errorf("judged again after %s, expected 15s ±20 %%", after)
		}
		w.clock.SetTime(w.clock.Now().Add(200 * time.Millisecond))
	}
}

// One cluster whose answers hang keeps four workers busy, no more.
func TestPerCluster(t *testing.T) {
	p := newPacer()
	for range perCluster {
		if !p.enter(key.Cluster) {
			t.Fatal("no room")
		}
	}
	if p.enter(key.Cluster) {
		t.Error("room for a fifth verdict")
	}
	if !p.enter(client.ObjectKey{Name: "c2"}) {
		t.Error("no room for another cluster")
	}
	p.leave(key.Cluster)
	if !p.enter(key.Cluster) {
		t.Error("no room after one has ended")
	}

	w := newWorld()
	for range perCluster {
		w.approver.pace.enter(key.Cluster)
	}
	if after := w.reconcile(t); after == 0 || after > time.Second || w.cloud != 0 {
		t.Errorf("judged again after %s, the cloud was asked %d times", after, w.cloud)
	}
}

func TestErrorSchedule(t *testing.T) {
	w := newWorld()
	w.cloudErr = reason.New(reason.CloudUnavailable, "status 503")
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		want *= time.Second
		after := w.reconcile(t)
		if after < want*8/10 || after > want*12/10 {
			t.Errorf("retry %d after %s, expected %s ±20 %%", i, after, want)
		}
		w.clock.SetTime(w.clock.Now().Add(after))
	}
	// It lasted more than a minute, so it is told, once.
	if len(w.events) != 1 || w.events[0].reason != string(reason.CloudUnavailable) {
		t.Errorf("events %+v", w.events)
	}
}

// Another missing fact is progress and is looked at soon; the minute until it is told goes on.
func TestProgressIsJudgedSoon(t *testing.T) {
	w := newWorld()
	for _, r := range []reason.Reason{reason.NoMachine, reason.NoMachine, reason.NoMachine, reason.InfrastructureMissing} {
		w.ownerErr = reason.New(r, "")
		after := w.reconcile(t)
		if r == reason.InfrastructureMissing && after > 18*time.Second {
			t.Errorf("judged again after %s, expected 15s ±20 %%", after)
		}
		w.clock.SetTime(w.clock.Now().Add(25 * time.Second))
	}
	if len(w.events) != 1 || w.events[0].reason != string(reason.InfrastructureMissing) {
		t.Errorf("events %+v", w.events)
	}
}

func TestWaitIsToldAfterAMinute(t *testing.T) {
	w := newWorld()
	w.ownerErr = reason.New(reason.ProviderIDMissing, "")
	w.reconcile(t)
	w.clock.SetTime(w.clock.Now().Add(59 * time.Second))
	w.reconcile(t)
	if len(w.events) != 0 {
		t.Errorf("told too early: %+v", w.events)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	w.reconcile(t)
	if len(w.events) != 1 || w.events[0].kind != "Normal" {
		t.Errorf("events %+v", w.events)
	}
}

// A kubelet asks again every 15 minutes with a new key: the same verdict is no news.
func TestNextRequestWithTheSameVerdict(t *testing.T) {
	w := newWorld()
	w.evidence = verdict.Evidence{}
	w.reconcile(t)
	w.csr = w.csr.DeepCopy()
	w.csr.Name, w.csr.UID = "csr-next", "uid-next"
	w.clock.SetTime(w.clock.Now().Add(15 * time.Minute))
	w.reconcile(t)
	if len(w.events) != 1 {
		t.Errorf("events %+v", w.events)
	}
	if n := w.count(reason.AddressNotOwned); n != 2 {
		t.Errorf("counted %d requests, expected 2", n)
	}
	// Another address is another verdict.
	w.csr = requesttest.New("n1", requesttest.DNS("n1"), requesttest.IP("10.0.0.6"))
	w.csr.UID = "uid-third"
	w.reconcile(t)
	if len(w.events) != 2 || !strings.Contains(w.events[1].note, "10.0.0.6") {
		t.Errorf("events %+v", w.events)
	}
}

func TestNothingPending(t *testing.T) {
	w := newWorld()
	w.evidence = verdict.Evidence{}
	w.reconcile(t)
	w.csr = nil
	if after := w.reconcile(t); after != 0 || len(w.approver.report.last) != 0 {
		t.Errorf("after %s, remembered %v", after, w.approver.report.last)
	}
}

func TestNote(t *testing.T) {
	w := newWorld()
	w.csr = requesttest.New("n1", requesttest.DNS("n1", "n2"), requesttest.IP("10.0.0.5", "10.0.0.6"))
	w.csr.Name = "csr-\x1b[31m"
	w.evidence.Holdings = append(w.evidence.Holdings, verdict.Holding{
		Address: netip.MustParseAddr("10.9.0.5"), Kind: verdict.Fixed, Inactive: "its port is down",
	})
	w.reconcile(t)
	const want = `Request "csr-\x1b[31m" of node n1: not approved: a DNS name is not one of the machine's: ` +
		`n2 (NameNotOwned), 10.0.0.6 (AddressNotOwned); the machine has n1, 10.0.0.5 (fixed). ` +
		`Next: compare the node's addresses in its status with the infrastructure machine's name.`
	if len(w.events) != 1 || w.events[0].note != want {
		t.Errorf("events %+v\nexpected note %s", w.events, want)
	}

	var many []string
	for i := range 40 {
		many = append(many, netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}).String())
	}
	w.csr = requesttest.New("n1", requesttest.IP(many...))
	w.csr.UID = types.UID("many")
	w.csr.Name = strings.Repeat("ü", 600)
	w.reconcile(t)
	note := w.events[1].note
	if len(note) > maxNote || strings.Contains(note, "10.1.0.8") || !strings.Contains(note, "10.1.0.7 (AddressNotOwned), …") {
		t.Errorf("%d bytes: %s", len(note), note)
	}
	// Names of the greatest length: the note is cut to what an Event can hold.
	var long []string
	for i := range 8 {
		long = append(long, strings.Repeat(strings.Repeat(string(rune('a'+i)), 62)+".", 3)+"example")
	}
	w.csr = requesttest.New("n1", requesttest.DNS(long...))
	w.csr.UID = types.UID("long")
	w.reconcile(t)
	if note := w.events[2].note; len(note) > maxNote || !strings.HasSuffix(note, "…") {
		t.Errorf("%d bytes: %s", len(note), note)
	}
	if long := capped(strings.Repeat("é", 1000)); len(long) > maxNote || !strings.HasSuffix(long, "é…") {
		t.Errorf("capped to %d bytes", len(long))
	}
}

func TestUnfollowed(t *testing.T) {
	w := newWorld()
	r, c := w.approver.report, w.owner.Cluster
	invalid := reason.New(reason.KubeconfigInvalid, "proxy-url is set")
	for range 3 {
		r.unfollowed(t.Context(), c, key.Cluster, invalid)
	}
	if len(w.events) != 1 || w.events[0].about != "c1" || !strings.Contains(w.events[0].note, "proxy-url is set") {
		t.Errorf("events %+v", w.events)
	}
	// What may pass by itself is told after a minute.
	w.events = nil
	r.unfollowed(t.Context(), c, key.Cluster, reason.New(reason.ClusterUnavailable, "no answer in time"))
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	r.unfollowed(t.Context(), c, key.Cluster, reason.New(reason.ClusterUnavailable, "no answer in time"))
	if len(w.events) != 1 {
		t.Errorf("events %+v", w.events)
	}
	r.unfollowed(t.Context(), c, key.Cluster, nil)
	if len(r.last) != 0 {
		t.Errorf("remembered %v", r.last)
	}
}

// A18: every pair of labels exists from the start and no other ever does.
func TestMetricSeries(t *testing.T) {
	w := newWorld()
	before := testutil.CollectAndCount(w.approver.options.Metrics.decisions)
	w.csr.Spec.Username = "system:node:\n"
	w.reconcile(t)
	if after := testutil.CollectAndCount(w.approver.options.Metrics.decisions); after != before || before != len(reason.All()) {
		t.Errorf("%d series before, %d after, %d reasons", before, after, len(reason.All()))
	}
	if problems, err := testutil.GatherAndLint(w.registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
