package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// A20, E69: two clusters of one namespace have a node of the same name. Each is judged by its own
// Machine and its own project of the cloud.
func TestTwins(t *testing.T) {
	together(t)
	const node = "twin-web-1"
	type twin struct {
		*stage.Cluster
		m *stage.Machine
	}
	twins := []twin{
		{cluster, machineIn(t, cluster, "twin-one", func(s *bed.MachineSpec) { s.InfraName = "twin-web.1" })},
		{played, machineIn(t, played, "twin-two", func(s *bed.MachineSpec) { s.InfraName = node })},
	}
	for _, twin := range twins {
		approvedIn(t, twin.Cluster, askIn(t, twin.Cluster, node, bed.RequestSpec{DNS: []string{node}, IPs: []netip.Addr{twin.m.Address}}))
	}
	for i, twin := range twins {
		others := twins[1-i].m.Address
		csr := askIn(t, twin.Cluster, node, bed.RequestSpec{DNS: []string{node}, IPs: []netip.Addr{others}})
		refusedIn(t, twin.Cluster, csr, twin.m.Machine.Machine, reason.AddressNotOwned, others.String(), twin.m.Address.String())
	}
	asked := map[string]int{}
	for _, request := range theStage.Cloud.Requests() {
		for _, twin := range twins {
			if request.Service == simulator.Nova && strings.HasSuffix(request.Path, twin.m.Server.ID) {
				asked[twin.Name]++
				if request.Credential != twin.Credential.ID {
					t.Errorf("the server of %s was asked for with another credential", twin.Name)
				}
			}
		}
	}
	for _, twin := range twins {
		if asked[twin.Name] == 0 {
			t.Errorf("the server of %s was never asked for", twin.Name)
		}
	}
}

// E69: a paused Cluster's kubelets need certificates like any other's.
func TestPaused(t *testing.T) {
	together(t)
	c, err := theStage.Introduce(t.Context(), "paused", played.Workload, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := c.Object.DeepCopy()
	c.Object.Spec.Paused = ptr.To(true)
	if err := theStage.Management.Client.Patch(t.Context(), c.Object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	m := machineIn(t, c, "paused-1")
	csr := askIn(t, c, "paused-1", bed.RequestSpec{DNS: []string{"paused-1"}, IPs: []netip.Addr{m.Address}})
	// It is followed only from here on, so it is paused for all that the approver does with it.
	if err := theStage.Management.SetKubeconfig(t.Context(), c.Object, played.Workload.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	approvedIn(t, c, csr)
}

// E69: a Machine that is being deleted has a kubelet as long as its server lives.
func TestDeleting(t *testing.T) {
	together(t)
	m := machine(t, "e69-deleting")
	before := m.Machine.Machine.DeepCopy()
	m.Machine.Machine.Finalizers = []string{"machine.cluster.x-k8s.io/e2e"}
	if err := theStage.Management.Client.Patch(t.Context(), m.Machine.Machine, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := theStage.Management.Client.Delete(t.Context(), m.Machine.Machine); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // the approver has seen it by then
	approved(t, ask(t, "e69-deleting", bed.RequestSpec{DNS: []string{"e69-deleting"}, IPs: []netip.Addr{m.Address}}))
	refused(t, ask(t, "e69-deleting", bed.RequestSpec{IPs: addrs("10.69.0.1")}), m.Machine.Machine, reason.AddressNotOwned, "10.69.0.1")
}
