// Package stage puts the whole play on: a management cluster, workload clusters with nodes, a cloud
// with their servers, and the approver as a process of its own. The demo and the end-to-end tests
// use it. It takes the role of Cluster API and of its OpenStack provider: whatever they would write
// about a server, it writes from the same simulator that the approver asks.
package stage

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// Namespace holds all Clusters, as Magnum does it.
const Namespace = "magnum-system"

// Stage is a management cluster and a cloud. Make one with New.
type Stage struct {
	Bed        *bed.Bed
	Cloud      *simulator.Simulator
	Management *bed.Management
}

// New starts the bed, the management cluster and the cloud.
func New(ctx context.Context, options bed.Options) (_ *Stage, err error) {
	s := &Stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Bed, err = bed.New(ctx, options); err != nil {
		return nil, err
	}
	if s.Cloud, err = simulator.New(simulator.Config{}); err != nil {
		return nil, err
	}
	s.Management, err = s.Bed.Management(ctx)
	return s, err
}

// Close ends everything.
func (s *Stage) Close() error {
	if s.Cloud != nil {
		s.Cloud.Close()
	}
	if s.Bed == nil {
		return nil
	}
	return s.Bed.Close()
}

// Cluster is a workload cluster with everything that the management cluster and the cloud know of it.
type Cluster struct {
	Name     string
	Object   *clusterv1.Cluster
	Workload *bed.Workload
	Project  *simulator.Project
	// Credential is the one that the approver asks the cloud with.
	Credential *simulator.Credential

	stage *Stage
}

// AddCluster starts a workload cluster and tells the management cluster about it.
func (s *Stage) AddCluster(ctx context.Context, spec bed.WorkloadSpec) (*Cluster, error) {
	workload, err := s.Bed.Workload(ctx, spec)
	if err != nil {
		return nil, err
	}
	return s.Introduce(ctx, spec.Name, workload, workload.Kubeconfig)
}

// Introduce tells the management cluster about a workload cluster under a name, with a project of its
// own in the cloud. A workload cluster may be introduced more than once: only the Cluster that has
// the node's Machine approves. Without a kubeconfig there is no Secret for it yet.
func (s *Stage) Introduce(ctx context.Context, name string, workload *bed.Workload, kubeconfig []byte) (_ *Cluster, err error) {
	c := &Cluster{Name: name, Workload: workload, Project: s.Cloud.AddProject(name), stage: s}
	c.Credential = c.Project.AddApplicationCredential(name)
	c.Object, err = s.Management.AddCluster(ctx, bed.ClusterSpec{
		Namespace: Namespace, Name: name,
		Kubeconfig: kubeconfig,
		Credential: bed.Credential{Name: c.SecretName(), CloudName: "default"},
		CloudsYAML: []byte(c.Credential.CloudsYAML()),
		CACert:     s.Cloud.CAPEM(),
	})
	return c, err
}

// SecretName is the name of the Secret with the cluster's clouds.yaml, as Magnum calls it.
func (c *Cluster) SecretName() string { return c.Name + "-cloud-config" }

// Machine is a server in the cloud with its Machine in the management cluster.
type Machine struct {
	*bed.Machine
	Server simulator.Server
	Port   simulator.Port
	// Address is the fixed one, on the port that the provider made.
	Address netip.Addr
}

// AddMachine boots a server in the cloud and writes what Cluster API and its provider would. The
// changes are made to what is written about it, not to the server.
func (c *Cluster) AddMachine(ctx context.Context, name string, changes ...func(*bed.MachineSpec)) (*Machine, error) {
	m := &Machine{Server: c.Project.AddServer(name), Address: c.stage.Bed.NewAddress()}
	m.Port = c.Project.AddPort(m.Server.ID, m.Address.String())
	spec := bed.MachineSpec{
		Namespace: Namespace, Cluster: c.Name, Name: name,
		InstanceID: m.Server.ID, Ports: []string{m.Port.ID},
		Addresses: []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: m.Address.String()}},
	}
	for _, change := range changes {
		change(&spec)
	}
	var err error
	if m.Machine, err = c.stage.Management.AddMachine(ctx, spec); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	return m, nil
}

// StartNode starts the kubelet of a machine, with the machine's name and fixed address. Its Node keeps
// the addresses that [bed.Workload.SetAddresses] gives it, as those of a cloud controller manager.
func (c *Cluster) StartNode(ctx context.Context, m *Machine) (*bed.Node, error) {
	return c.Workload.StartNode(ctx, bed.NodeSpec{
		Name: m.Server.Name, Addresses: []netip.Addr{m.Address}, KubeletArgs: []string{"--cloud-provider=external"},
	})
}

// RegisterNode creates a Node as the node itself, with a provider ID of its choice: what a kubelet
// with --provider-id does.
func (c *Cluster) RegisterNode(ctx context.Context, config *rest.Config, name, providerID string) error {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	_, err = clientset.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// LinkNode writes the node into the Machine's nodeRef, as Cluster API does when a Node has the
// Machine's provider ID.
func (s *Stage) LinkNode(ctx context.Context, machine *clusterv1.Machine, node string) error {
	linked := machine.DeepCopy()
	linked.Status.NodeRef.Name = node
	return s.Management.Client.Status().Patch(ctx, linked, client.MergeFrom(machine))
}
