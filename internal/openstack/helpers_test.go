package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

const (
	namespace  = "tenant"
	secretName = "cloud-config"
	userAgent  = "approver-test/1"
	// canary stands in everything that a hostile cloud or Secret says, and in no error.
	canary = "canary-7f3a"
)

// fixture is a cloud with one server, and the objects of the management cluster that lead to it:
// S1 of the case list, with the port that Cluster API's provider made.
type fixture struct {
	sim        *simulator.Simulator
	project    *simulator.Project
	credential *simulator.Credential
	server     simulator.Server
	port       simulator.Port

	objects *objects
	mapper  *meta.DefaultRESTMapper
	source  *Source
	owner   owner.Owner
	// secrets are texts that no error may hold.
	secrets []string
}

func start(t *testing.T, config ...simulator.Config) *fixture {
	t.Helper()
	config = append(config, simulator.Config{})
	sim, err := simulator.New(config[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	f := &fixture{sim: sim, project: sim.AddProject("demo"), objects: newObjects()}
	f.mapper = meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: Group, Version: "v1beta1"}, {Group: Group, Version: "v1alpha1"}})
	f.credential = f.project.AddApplicationCredential("approver")
	f.server = f.project.AddServer("n1")
	f.port = f.project.AddPort(f.server.ID, "10.0.0.5")
	f.secrets = []string{sim.URL(), sim.URL()[strings.Index(sim.URL(), "//")+2:], f.credential.Secret, "gAAAAAB", canary}

	for _, known := range []string{"OpenStackMachine", "OpenStackCluster"} {
		f.mapper.Add(gvk(known, "v1beta1"), meta.RESTScopeNamespace)
	}
	f.mapper.Add(gvk("OpenStackServer", "v1alpha1"), meta.RESTScopeNamespace)
	f.mapper.Add(gvk("OpenStackClusterIdentity", "v1alpha1"), meta.RESTScopeRoot)
	if f.source, err = New(f.objects, f.mapper, Options{UserAgent: userAgent}); err != nil {
		t.Fatal(err)
	}
	f.owner = owner.Owner{
		Cluster: &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"},
			Spec:       clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: Group, Kind: "OpenStackCluster", Name: "c1"}},
		},
		Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1"}},
		Infrastructure: object("OpenStackMachine", "n1", map[string]any{
			"spec": map[string]any{"identityRef": map[string]any{"type": "Secret", "name": secretName, "cloudName": "default"}},
		}),
		ProviderID: "openstack:///" + f.server.ID,
	}
	f.objects.put(object("OpenStackCluster", "c1", nil))
	f.setClouds(f.credential.CloudsYAML())
	return f
}

func gvk(kind, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: Group, Version: version, Kind: kind}
}

func object(kind, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: maps.Clone(content)}
	if o.Object == nil {
		o.Object = map[string]any{}
	}
	version := "v1beta1"
	if kind == "OpenStackServer" || kind == "OpenStackClusterIdentity" {
		version = "v1alpha1"
	}
	o.SetGroupVersionKind(gvk(kind, version))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// resources is the status of an object whose provider made ports.
func resources(instanceID string, portIDs ...string) map[string]any {
	list := []any{}
	for _, id := range portIDs {
		list = append(list, map[string]any{"id": id})
	}
	return map[string]any{"status": map[string]any{"instanceID": instanceID, "resources": map[string]any{"ports": list}}}
}

// setClouds writes the credential's Secret, with the cloud's own CA.
func (f *fixture) setClouds(cloudsYAML string) {
	f.setSecret(map[string][]byte{keyClouds: []byte(cloudsYAML), keyCA: f.sim.CAPEM()})
}

func (f *fixture) setSecret(data map[string][]byte) {
	f.objects.put(&corev1.Secret{ObjectMeta: f.secretMeta(), Data: data})
}

func (f *fixture) secretMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: secretName, UID: "secret-uid"}
}

func (f *fixture) identityRef(fields map[string]any) {
	_ = unstructured.SetNestedMap(f.owner.Infrastructure.Object, fields, "spec", "identityRef")
}

// timeout is for calls that are to succeed on a busy machine.
const timeout = 20 * time.Second

func (f *fixture) ask(ctx context.Context, wanted ...string) (verdict.Evidence, error) {
	var addresses []netip.Addr
	for _, text := range wanted {
		addresses = append(addresses, netip.MustParseAddr(text))
	}
	return f.source.Evidence(ctx, f.owner, addresses)
}

// holdings asks and returns what came, as text in the order of the text.
func (f *fixture) holdings(t *testing.T, wanted ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	evidence, err := f.ask(ctx, wanted...)
	if err != nil {
		t.Fatal(err)
	}
	if len(evidence.Others) != 0 {
		t.Errorf("others: %v", evidence.Others)
	}
	got := []string{}
	for _, h := range evidence.Holdings {
		text := h.Address.String() + " " + h.Kind.String()
		if h.Provisioned {
			text += " provisioned"
		}
		if h.Inactive != "" {
			text += " inactive"
		}
		got = append(got, text)
	}
	slices.Sort(got)
	return got
}

func (f *fixture) wantHoldings(t *testing.T, wanted []string, want ...string) {
	t.Helper()
	if got := f.holdings(t, wanted...); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// wantProblem asks and checks the reason, and that its words tell nothing of the cloud or Secret.
func (f *fixture) wantProblem(t *testing.T, want reason.Reason) *reason.Problem {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	evidence, err := f.ask(ctx, "10.0.0.5", "192.0.2.1")
	if len(evidence.Holdings) != 0 {
		t.Errorf("an error came with holdings: %v", evidence.Holdings)
	}
	return f.checkProblem(t, err, want)
}

func (f *fixture) checkProblem(t *testing.T, err error, want reason.Reason) *reason.Problem {
	t.Helper()
	var problem *reason.Problem
	if !errors.As(err, &problem) {
		t.Fatalf("got %v, want %s", err, want)
	}
	if problem.Reason != want {
		t.Errorf("got %q, want %s", err, want)
	}
	for _, secret := range f.secrets {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q holds %q", err, secret)
		}
	}
	if len(problem.Detail) > 500 || strings.ContainsFunc(problem.Detail, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("not fit to show: %.600q", problem.Detail)
	}
	return problem
}

// wantCalls checks how often the cloud was asked since the last reset.
func (f *fixture) wantCalls(t *testing.T, want map[simulator.Operation]int) {
	t.Helper()
	for _, op := range []simulator.Operation{simulator.OpToken, simulator.OpServer, simulator.OpPorts, simulator.OpFloatingIPs, simulator.OpOther} {
		if got := f.sim.Count("", op); got != want[op] {
			t.Errorf("%s was asked %d times, want %d", op, got, want[op])
		}
	}
}

// objects is a management cluster to read from.
type objects struct {
	mu      sync.Mutex
	stored  map[string]client.Object
	version int
	// fail is the answer to reads of a kind.
	fail map[string]error
}

func newObjects() *objects {
	return &objects{stored: map[string]client.Object{}, fail: map[string]error{}}
}

func objectKey(kind string, name types.NamespacedName) string { return kind + " " + name.String() }

func kindOf(o client.Object) string {
	switch o.(type) {
	case *corev1.Secret:
		return "Secret"
	case *corev1.Namespace:
		return "Namespace"
	}
	return o.GetObjectKind().GroupVersionKind().GroupKind().String()
}

// put stores an object under a new resourceVersion.
func (o *objects) put(stored client.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.version++
	stored.SetResourceVersion(strconv.Itoa(o.version))
	o.stored[objectKey(kindOf(stored), client.ObjectKeyFromObject(stored))] = stored
}

func (o *objects) drop(stored client.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.stored, objectKey(kindOf(stored), client.ObjectKeyFromObject(stored)))
}

func (o *objects) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.fail[kindOf(into)]; err != nil {
		return err
	}
	found, ok := o.stored[objectKey(kindOf(into), name)]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: canary}, name.Name)
	}
	switch found := found.DeepCopyObject().(type) {
	case *corev1.Secret:
		*into.(*corev1.Secret) = *found
	case *corev1.Namespace:
		*into.(*corev1.Namespace) = *found
	case *unstructured.Unstructured:
		if want := into.GetObjectKind().GroupVersionKind(); found.GroupVersionKind() != want {
			return fmt.Errorf("%s is not served as %s", found.GroupVersionKind(), want)
		}
		*into.(*unstructured.Unstructured) = *found
	}
	return nil
}

func (o *objects) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the source has no right to list")
}
