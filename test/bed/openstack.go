package bed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	infrastructureGroup = "infrastructure.cluster.x-k8s.io"
	openStackVersion    = infrastructureGroup + "/v1beta2"
	// OpenStackServer and OpenStackClusterIdentity have only this one.
	openStackAlphaVersion = infrastructureGroup + "/v1alpha1"
)

// Credential is the identityRef of an OpenStack object: which clouds.yaml, and what of it.
type Credential struct {
	// Type is Secret, in the same namespace, or ClusterIdentity. Empty means Secret.
	Type string
	// Name is that of the Secret or OpenStackClusterIdentity.
	Name string
	// CloudName is the entry in clouds.yaml.
	CloudName string
	// Region overrides the entry's. May be empty.
	Region string
}

// fields returns the identityRef, and nil for the zero credential.
func (c Credential) fields() map[string]any {
	if c == (Credential{}) {
		return nil
	}
	if c.Type == "" {
		c.Type = "Secret"
	}
	fields := map[string]any{"type": c.Type, "name": c.Name, "cloudName": c.CloudName}
	if c.Region != "" {
		fields["region"] = c.Region
	}
	return fields
}

// AddIdentity creates an OpenStackClusterIdentity for the clouds.yaml of a Secret. Namespaces with
// the given labels may use it; nil allows all.
func (m *Management) AddIdentity(ctx context.Context, name, secretNamespace, secretName string, namespaceLabels map[string]string) error {
	spec := map[string]any{"secretRef": map[string]any{"namespace": secretNamespace, "name": secretName}}
	if namespaceLabels != nil {
		labels := map[string]any{}
		for key, value := range namespaceLabels {
			labels[key] = value
		}
		spec["namespaceSelector"] = map[string]any{"matchLabels": labels}
	}
	identity := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": openStackAlphaVersion, "kind": "OpenStackClusterIdentity",
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
	return m.Client.Create(ctx, identity)
}

func (m *Management) addOpenStackCluster(ctx context.Context, cluster *clusterv1.Cluster, credential Credential) error {
	object := openStackObject(openStackVersion, "OpenStackCluster", cluster.Namespace, cluster.Name)
	object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster.Name})
	object.SetOwnerReferences([]metav1.OwnerReference{ownerReference(cluster, "Cluster", true)})
	object.Object["spec"] = withIdentity(credential.fields())
	status := map[string]any{"initialization": map[string]any{"provisioned": true}}
	return m.createWithStatus(ctx, object, status)
}

// addOpenStackMachine creates the OpenStackMachine and the OpenStackServer of a Machine.
func (m *Management) addOpenStackMachine(ctx context.Context, created *Machine, spec MachineSpec) error {
	infra := openStackObject(openStackVersion, "OpenStackMachine", spec.Namespace, spec.InfraName)
	infra.SetLabels(machineLabels(spec))
	infra.SetOwnerReferences([]metav1.OwnerReference{ownerReference(created.Machine, "Machine", true)})
	identity := spec.Credential.fields()
	infraSpec := withIdentity(identity)
	setIf(infraSpec, "providerID", spec.ProviderID)
	infra.Object["spec"] = infraSpec
	addresses := make([]any, 0, len(spec.Addresses))
	for _, address := range spec.Addresses {
		addresses = append(addresses, map[string]any{"type": string(address.Type), "address": address.Address})
	}
	ports := make([]any, 0, len(spec.Ports))
	for _, port := range spec.Ports {
		ports = append(ports, map[string]any{"id": port})
	}
	resources := map[string]any{"ports": ports}

	status := map[string]any{"addresses": addresses}
	setIf(status, "instanceID", spec.InstanceID)
	if spec.InstanceID != "" {
		status["instanceState"] = "ACTIVE"
		status["initialization"] = map[string]any{"provisioned": true}
	}
	if spec.NoServer {
		status["resources"] = resources
	}
	created.Infrastructure = infra
	if err := m.createWithStatus(ctx, infra, status); err != nil || spec.NoServer {
		return err
	}

	server := openStackObject(openStackAlphaVersion, "OpenStackServer", spec.Namespace, spec.InfraName)
	server.SetLabels(map[string]string{clusterv1.ClusterNameLabel: spec.Cluster})
	server.SetOwnerReferences([]metav1.OwnerReference{ownerReference(infra, "OpenStackMachine", true)})
	if identity == nil {
		// The provider fills in the cluster's: a server always has one.
		cluster := openStackObject(openStackVersion, "OpenStackCluster", spec.Namespace, spec.Cluster)
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		identity, _, _ = unstructured.NestedMap(cluster.Object, "spec", "identityRef")
	}
	server.Object["spec"] = withIdentity(identity)
	status = map[string]any{"addresses": addresses, "resources": resources}
	setIf(status, "instanceID", spec.InstanceID)
	if spec.InstanceID != "" {
		status["instanceState"] = "ACTIVE"
	}
	created.Server = server
	return m.createWithStatus(ctx, server, status)
}

// createWithStatus creates the object and then writes its status, which a create ignores.
func (m *Management) createWithStatus(ctx context.Context, object *unstructured.Unstructured, status map[string]any) error {
	if err := m.Client.Create(ctx, object); err != nil {
		return err
	}
	object.Object["status"] = status
	return m.Client.Status().Update(ctx, object)
}

func openStackObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

// withIdentity returns a spec with this identityRef, or an empty one without.
func withIdentity(identity map[string]any) map[string]any {
	if identity == nil {
		return map[string]any{}
	}
	return map[string]any{"identityRef": identity}
}

func setIf(fields map[string]any, key, value string) {
	if value != "" {
		fields[key] = value
	}
}

func infrastructureRef(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrastructureGroup, Kind: kind, Name: name}
}

// ownerReference takes the kind beside the object, because the client clears it in typed objects.
func ownerReference(owner client.Object, kind string, controller bool) metav1.OwnerReference {
	apiVersion := clusterv1.GroupVersion.String()
	if kind == "OpenStackMachine" {
		apiVersion = openStackVersion
	}
	reference := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}
	if controller {
		reference.Controller = ptr.To(true)
		reference.BlockOwnerDeletion = ptr.To(true)
	}
	return reference
}
