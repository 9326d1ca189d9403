package bed

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newBed starts a bed that is closed at the end of the test, and then looks for what it left.
func newBed(t *testing.T, options Options) *Bed {
	if testing.Short() {
		t.Skip("starts etcd, kube-apiserver and kubelets; left out by -short")
	}
	options.Log = func(line string) { t.Log(line) }
	b, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		begin := time.Now()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		t.Logf("closed after %.1f s", time.Since(begin).Seconds())
		checkNothingLeft(t, b)
	})
	return b
}

// checkNothingLeft looks for the bed's id in everything that the kernel would still know of it.
func checkNothingLeft(t *testing.T, b *Bed) {
	t.Helper()
	if _, err := os.Stat(b.tmp); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", b.tmp, err)
	}
	for _, pattern := range []string{"/sys/class/net/*", netnsDir + "/*", "/proc/[0-9]*/cmdline", "/proc/self/mountinfo"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			content := ""
			if strings.HasPrefix(path, "/proc/") {
				data, _ := os.ReadFile(path) // a process may have ended since
				content = string(data)
			}
			if strings.Contains(path+content, b.id) {
				t.Errorf("%s is left: %s", path, content)
			}
		}
	}
}

func TestManagement(t *testing.T) {
	b := newBed(t, Options{})
	m, err := b.Management(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	credential := Credential{Name: "cloud-config", CloudName: "default"}
	cluster, err := m.AddCluster(t.Context(), ClusterSpec{
		Namespace: "magnum-system", Name: "c1", Kubeconfig: []byte("{}"), Credential: credential, CloudsYAML: []byte("clouds: {}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !*cluster.Status.Initialization.ControlPlaneInitialized {
		t.Error("the control plane is not initialized")
	}
	var secret corev1.Secret
	if err := m.Client.Get(t.Context(), client.ObjectKey{Namespace: "magnum-system", Name: "c1-kubeconfig"}, &secret); err != nil {
		t.Fatal(err)
	}
	if secret.Type != clusterv1.ClusterSecretType || secret.Labels[clusterv1.ClusterNameLabel] != "c1" {
		t.Errorf("kubeconfig Secret: type %s, labels %v", secret.Type, secret.Labels)
	}
	if err := m.AddIdentity(t.Context(), "shared", "magnum-system", "cloud-config", map[string]string{"cloud": "yes"}); err != nil {
		t.Fatal(err)
	}
	const instance = "11111111-2222-3333-4444-555555555555"
	machine, err := m.AddMachine(t.Context(), MachineSpec{
		Namespace: "magnum-system", Cluster: "c1", Name: "c1-md-0-x", InfraName: "c1-md-0-infra", InstanceID: instance,
		Ports: []string{"66666666-2222-3333-4444-555555555555"}, NodeName: "c1-md-0-infra",
		Addresses: []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.6.0.5"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if machine.Machine.Spec.ProviderID != "openstack:///"+instance || machine.Machine.Status.NodeRef.Name != "c1-md-0-infra" {
		t.Errorf("Machine: %+v %+v", machine.Machine.Spec, machine.Machine.Status)
	}
	// The same object in the older version of the API, as an approver may read it.
	old := openStackObject(infrastructureGroup+"/v1beta1", "OpenStackMachine", "magnum-system", "c1-md-0-infra")
	if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		t.Fatal(err)
	}
	if owner := old.GetOwnerReferences()[0]; owner.UID != machine.Machine.UID || !*owner.Controller {
		t.Errorf("owner of the OpenStackMachine: %+v", owner)
	}
	if id := old.Object["status"].(map[string]any)["instanceID"]; id != instance {
		t.Errorf("status.instanceID is %v", id)
	}
	if ref := machine.Server.Object["spec"].(map[string]any)["identityRef"]; ref == nil {
		t.Error("the OpenStackServer has not got the cluster's credential")
	}
	// An outage keeps the data.
	m.StopAPIServer()
	if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err == nil {
		t.Error("a stopped API server answers")
	}
	if err := m.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Error(err)
	}
	// RBAC applies to everybody else.
	nobody, err := m.As("somebody")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(nobody, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights reads a Cluster: %v", err)
	}
}

func TestRealNode(t *testing.T) {
	b := newBed(t, Options{})
	if real, why := b.RealKubelets(); !real {
		t.Skip(why)
	}
	settings := kernelSettings(t)
	testNodes(t, b)
	if now := kernelSettings(t); !slices.Equal(now, settings) {
		t.Errorf("kernel settings were %v and are %v", settings, now)
	}
}

func TestPlayedNode(t *testing.T) {
	testNodes(t, newBed(t, Options{PlayedKubelets: true}))
}

// testNodes takes two nodes from their request to a verified connection.
func testNodes(t *testing.T, b *Bed) {
	ctx := t.Context()
	w, err := b.Workload(ctx, WorkloadSpec{Name: "c1", SigningDuration: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		begin := time.Now()
		node, err := w.StartNode(ctx, NodeSpec{Name: "c1-node-" + strconv.Itoa(i), KubeletArgs: []string{"--cloud-provider=external"}})
		if err != nil {
			t.Fatal(err)
		}
		request, err := w.WaitRequest(ctx, node.Name)
		if err != nil {
			t.Fatal(err)
		}
		waited := time.Since(begin)
		t.Logf("%s: request pending after %.1f s", node.Name, waited.Seconds())
		if waited > 20*time.Second {
			t.Errorf("the request took %v", waited)
		}
		if request.Spec.Username != "system:node:"+node.Name {
			t.Errorf("the request is from %s", request.Spec.Username)
		}
		if _, err := w.KubeletHealthz(ctx, node.Name); err == nil || !strings.Contains(err.Error(), "remote error: tls: internal error") {
			t.Errorf("healthz without a certificate: %v", err)
		}
		approveAndReach(t, w, node, request)
	}
	testNewAddress(t, w)
	testDishonest(t, w)
}

// testNewAddress shows that a kubelet asks anew when the cloud gives its node one more address.
func testNewAddress(t *testing.T, w *Workload) {
	ctx := t.Context()
	addresses, err := w.NodeAddresses(ctx, "c1-node-1")
	if err != nil {
		t.Fatal(err)
	}
	addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.7"})
	if err := w.SetAddresses(ctx, "c1-node-1", addresses); err != nil {
		t.Fatal(err)
	}
	request, err := w.WaitRequest(ctx, "c1-node-1")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(request.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed.IPAddresses) != 2 || !slices.Equal(parsed.DNSNames, []string{"c1-node-1"}) {
		t.Errorf("the request is for %v and %v", parsed.IPAddresses, parsed.DNSNames)
	}
}

func approveAndReach(t *testing.T, w *Workload, node *Node, request *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	ctx := t.Context()
	if err := w.Approve(ctx, request.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WaitCertificate(ctx, request.Name); err != nil {
		t.Fatal(err)
	}
	if err := w.WaitHealthz(ctx, node.Name, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if body, err := w.KubeletHealthz(ctx, node.Name); body != "ok" || err != nil {
		t.Errorf("healthz: %q, %v", body, err)
	}
	node.Stop()
	if _, err := w.KubeletHealthz(ctx, node.Name); err == nil {
		t.Error("a stopped node answers")
	}
	if err := node.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.WaitHealthz(ctx, node.Name, 20*time.Second); err != nil {
		t.Error("after a restart:", err)
	}
}

// testDishonest shows that a node's own credentials get what a node gets.
func testDishonest(t *testing.T, w *Workload) {
	node, err := w.Node("c1-node-0")
	if err != nil {
		t.Fatal(err)
	}
	foreign := RequestSpec{CommonName: "system:node:c1-node-0", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	if _, _, err := MakeRequest(t.Context(), node.Config, foreign); err != nil {
		t.Errorf("any address may be asked for: %v", err)
	}
	foreign.CommonName = "system:node:c1-node-1"
	if _, _, err := MakeRequest(t.Context(), node.Config, foreign); !apierrors.IsForbidden(err) {
		t.Errorf("NodeRestriction lets a node ask in another's name: %v", err)
	}
}

func kernelSettings(t *testing.T) (values []string) {
	for _, name := range []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys"} {
		data, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, strings.TrimSpace(string(data)))
	}
	return values
}

func TestCancelledContextCloses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver; left out by -short")
	}
	ctx, cancel := context.WithCancel(t.Context())
	b, err := New(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, cancel)
	if _, err := b.Management(ctx); err == nil {
		t.Error("a management cluster started on a cancelled context")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, b)
}
