package bed

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClusterSpec describes what the management cluster holds about a workload cluster.
type ClusterSpec struct {
	// Namespace is created if it does not exist.
	Namespace, Name string
	// Labels are added to the Cluster's.
	Labels map[string]string
	// Kubeconfig goes into the Secret NAME-kubeconfig: [API.Kubeconfig], or one of
	// [API.KubeconfigAs]. Nil creates no Secret.
	Kubeconfig []byte
	// Credential is the OpenStackCluster's.
	Credential Credential
	// CloudsYAML goes into the Secret of the credential, with CACert if that is set. Nil creates
	// no Secret.
	CloudsYAML, CACert []byte
	// Uninitialized leaves the control plane uninitialized: Cluster API has not reached it yet.
	Uninitialized bool
}

// AddCluster creates a Cluster with its Namespace, OpenStackCluster and Secrets, and returns the
// Cluster.
func (m *Management) AddCluster(ctx context.Context, spec ClusterSpec) (*clusterv1.Cluster, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: spec.Namespace}}
	if err := client.IgnoreAlreadyExists(m.Client.Create(ctx, namespace)); err != nil {
		return nil, err
	}
	if spec.CloudsYAML != nil {
		data := map[string][]byte{"clouds.yaml": spec.CloudsYAML}
		if spec.CACert != nil {
			data["cacert"] = spec.CACert
		}
		credential := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: spec.Namespace, Name: spec.Credential.Name}, Data: data}
		if err := m.Client.Create(ctx, credential); err != nil {
			return nil, err
		}
	}
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: spec.Namespace, Name: spec.Name, Labels: spec.Labels},
		Spec:       clusterv1.ClusterSpec{InfrastructureRef: infrastructureRef("OpenStackCluster", spec.Name)},
	}
	if err := m.Client.Create(ctx, cluster); err != nil {
		return nil, err
	}
	if err := m.addOpenStackCluster(ctx, cluster, spec.Credential); err != nil {
		return nil, err
	}
	if spec.Kubeconfig != nil {
		if err := m.SetKubeconfig(ctx, cluster, spec.Kubeconfig); err != nil {
			return nil, err
		}
	}
	cluster.Status.Phase = string(clusterv1.ClusterPhaseProvisioned)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	condition := metav1.Condition{
		Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.ClusterControlPlaneNotInitializedReason, LastTransitionTime: metav1.Now(),
	}
	if !spec.Uninitialized {
		cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.ClusterControlPlaneInitializedReason
	}
	cluster.Status.Conditions = []metav1.Condition{condition}
	return cluster, m.Client.Status().Update(ctx, cluster)
}

// SetKubeconfig creates or replaces the cluster's kubeconfig Secret.
func (m *Management) SetKubeconfig(ctx context.Context, cluster *clusterv1.Cluster, kubeconfig []byte) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig",
			Labels:          map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{ownerReference(cluster, "Cluster", false)},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": kubeconfig},
	}
	err := m.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = m.Client.Update(ctx, secret)
	}
	return err
}

// MachineSpec describes a machine. Namespace, Cluster and Name are required.
type MachineSpec struct {
	// Namespace and Cluster name an existing Cluster.
	Namespace, Cluster string
	// Name is the Machine's name.
	Name string
	// InfraName is the OpenStackMachine's, and so the server's and usually the node's. Name when empty.
	InfraName string
	// ControlPlane sets the label of control plane machines.
	ControlPlane bool
	// InstanceID is the UUID of the server. Empty: it is not created yet, and the status knows none.
	InstanceID string
	// ProviderID is that of Machine and OpenStackMachine; openstack:///INSTANCEID when empty.
	ProviderID string
	// Ports are the UUIDs of the ports that the provider made for the server.
	Ports []string
	// Addresses are those in the status of all three objects.
	Addresses []clusterv1.MachineAddress
	// Credential is the machine's own. Zero: the cluster's is used.
	Credential Credential
	// NodeName is the name in status.nodeRef. Empty: none yet.
	NodeName string
	// NoServer leaves out the OpenStackServer, as older provider releases do. The ports are
	// then in the OpenStackMachine's status.
	NoServer bool
}

// Machine is what AddMachine created. Server is nil with NoServer.
type Machine struct {
	Machine        *clusterv1.Machine
	Infrastructure *unstructured.Unstructured
	Server         *unstructured.Unstructured
}

// AddMachine creates a Machine with its OpenStackMachine and OpenStackServer.
func (m *Management) AddMachine(ctx context.Context, spec MachineSpec) (*Machine, error) {
	if spec.InfraName == "" {
		spec.InfraName = spec.Name
	}
	if spec.ProviderID == "" && spec.InstanceID != "" {
		spec.ProviderID = "openstack:///" + spec.InstanceID
	}
	var cluster clusterv1.Cluster
	if err := m.Client.Get(ctx, client.ObjectKey{Namespace: spec.Namespace, Name: spec.Cluster}, &cluster); err != nil {
		return nil, fmt.Errorf("the cluster of machine %s: %w", spec.Name, err)
	}
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: spec.Namespace, Name: spec.Name, Labels: machineLabels(spec),
			OwnerReferences: []metav1.OwnerReference{ownerReference(&cluster, "Cluster", false)},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName:       spec.Cluster,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To(spec.Name)},
			InfrastructureRef: infrastructureRef("OpenStackMachine", spec.InfraName),
			ProviderID:        spec.ProviderID,
		},
	}
	if err := m.Client.Create(ctx, machine); err != nil {
		return nil, err
	}
	machine.Status.Initialization.BootstrapDataSecretCreated = ptr.To(true)
	machine.Status.Initialization.InfrastructureProvisioned = ptr.To(spec.InstanceID != "")
	machine.Status.Addresses = spec.Addresses
	machine.Status.NodeRef.Name = spec.NodeName
	machine.Status.Phase = string(clusterv1.MachinePhaseProvisioned)
	if err := m.Client.Status().Update(ctx, machine); err != nil {
		return nil, err
	}
	created := &Machine{Machine: machine}
	return created, m.addOpenStackMachine(ctx, created, spec)
}

func machineLabels(spec MachineSpec) map[string]string {
	labels := map[string]string{clusterv1.ClusterNameLabel: spec.Cluster}
	if spec.ControlPlane {
		labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	return labels
}
