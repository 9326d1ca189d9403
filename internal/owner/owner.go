// Package owner finds the Machine behind a node's name, from the management cluster alone.
//
// The node's name is the infrastructure machine's name: nothing else selects. Node objects, nodeRef
// and the cloud's own names can be written by the node or by the tenant, so none of them proves
// which machine a node is (A03, A25). The package knows no provider: what it reads of an
// infrastructure object is what Cluster API's contract demands of all of them.
package owner

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// Owner is the chain behind a node: its Cluster, its Machine and the object that the infrastructure
// provider made for it.
type Owner struct {
	Cluster *clusterv1.Cluster
	// Machine may be set although Find failed: it is then the one to tell about the failure.
	Machine *clusterv1.Machine
	// Infrastructure was read live, not from a cache.
	Infrastructure *unstructured.Unstructured
	// ProviderID is the same on the Machine and on its infrastructure object.
	ProviderID string
	// Facts are what the verdict needs of all this.
	Facts verdict.Owner
}

// Finder finds owners.
type Finder struct {
	// Reader serves Clusters and Machines from the manager's cache, with the indexes of
	// SetupIndexes, and unstructured objects live.
	Reader client.Reader
	// Mapper finds the served version of an infrastructure kind.
	Mapper meta.RESTMapper
	// Domains are the operator's --node-domain values.
	Domains []string
	// Supported tells whether some source of addresses knows a kind of infrastructure machine. Others
	// are not even read: the approver may have no right to.
	Supported func(schema.GroupKind) bool
}

// Find returns the owner of a node's name in a cluster. Checked, in this order: exactly one Machine
// of the cluster has the name among its forms, and shares none of its forms with another Machine;
// it is a member of the cluster by label and by spec (A20); its infrastructure kind is supported;
// the infrastructure object exists and the Machine is its controller; both have the same provider ID
// (A23). A paused Cluster and a Machine that is being deleted are found like any other: their
// certificates must not expire in the middle of a drain.
//
// The error is always a *reason.Problem. When it is not nil, the Owner has what was found so far.
func (f *Finder) Find(ctx context.Context, cluster client.ObjectKey, node string) (Owner, error) {
	o := Owner{Cluster: &clusterv1.Cluster{}}
	if err := f.Reader.Get(ctx, cluster, o.Cluster); err != nil {
		return Owner{}, unavailable("Cluster", err)
	}
	machine, err := f.machine(ctx, o.Cluster, node)
	if err != nil {
		o.Machine = machine
		return o, err
	}
	return f.chain(ctx, o.Cluster, machine)
}

// chain follows a Machine to its infrastructure object. On an error the Owner has what was found.
func (f *Finder) chain(ctx context.Context, cluster *clusterv1.Cluster, machine *clusterv1.Machine) (o Owner, err error) {
	o = Owner{Cluster: cluster, Machine: machine}
	ref := machine.Spec.InfrastructureRef
	kind := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	if !f.Supported(kind) {
		return o, reason.New(reason.InfrastructureNotSupported, "%s %s", kind, ref.Name)
	}
	if o.Infrastructure, err = f.infrastructure(ctx, o.Machine, kind); err != nil {
		return o, err
	}
	if o.ProviderID, err = providerID(o.Machine, o.Infrastructure); err != nil {
		return o, err
	}
	same, err := f.list(ctx, cluster, byInstance, instance(o.ProviderID))
	if err != nil {
		return o, err
	}
	if len(same) > 1 {
		return o, reason.New(reason.AmbiguousMachine, "Machines %s have one instance in spec.providerID", machineNames(same))
	}
	o.Facts, err = facts(o.Cluster, o.Machine, NodeNames(o.Machine, f.Domains))
	return o, err
}

// machine returns the one Machine whose node may have the name. When there is none, it returns the
// Machine that Cluster API linked to the node, if any, for the Event only.
func (f *Finder) machine(ctx context.Context, cluster *clusterv1.Cluster, node string) (*clusterv1.Machine, error) {
	found, err := f.list(ctx, cluster, byNodeName, node)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		linked, err := f.list(ctx, cluster, byNodeRef, node)
		if err != nil {
			return nil, err
		}
		if len(linked) == 1 {
			return &linked[0], reason.New(reason.NameMismatch, "the infrastructure machine %s has no node called %s, but: %s",
				linked[0].Spec.InfrastructureRef.Name, node, strings.Join(NodeNames(&linked[0], f.Domains), ", "))
		}
		return nil, reason.New(reason.NoMachine, "no Machine of Cluster %s has an infrastructure machine called %s", cluster.Name, node)
	}
	machine := found[0]
	// A name that the machine may use in its certificate must not be another machine's either, so
	// all its forms are looked up, not only the one that the node goes by.
	for _, name := range NodeNames(&machine, f.Domains) {
		same, err := f.list(ctx, cluster, byNodeName, name)
		if err != nil {
			return nil, err
		}
		if len(same) > 1 {
			return nil, reason.New(reason.AmbiguousMachine, "Machines %s could all have a node called %s", machineNames(same), name)
		}
	}
	if label := machine.Labels[clusterv1.ClusterNameLabel]; label != cluster.Name {
		return &machine, reason.New(reason.MachineNotMember, "label %s is %q, expected %q", clusterv1.ClusterNameLabel, label, cluster.Name)
	}
	return &machine, nil
}

func (f *Finder) list(ctx context.Context, cluster *clusterv1.Cluster, index, node string) ([]clusterv1.Machine, error) {
	var machines clusterv1.MachineList
	err := f.Reader.List(ctx, &machines, client.InNamespace(cluster.Namespace), client.MatchingFields{index: key(cluster.Name, node)})
	if err != nil {
		return nil, unavailable("Machines", err)
	}
	return machines.Items, nil
}

func (f *Finder) infrastructure(ctx context.Context, m *clusterv1.Machine, kind schema.GroupKind) (*unstructured.Unstructured, error) {
	infra, err := Read(ctx, f.Reader, f.Mapper, kind, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name})
	if err != nil {
		return nil, err
	}
	if infra == nil {
		return nil, reason.New(reason.InfrastructureMissing, "%s %s does not exist", kind.Kind, m.Spec.InfrastructureRef.Name)
	}
	if controller := metav1.GetControllerOf(infra); controller == nil || controller.UID != m.UID {
		return nil, reason.New(reason.InfrastructureNotOwned, "the controller of %s %s is not Machine %s", kind.Kind, infra.GetName(), m.Name)
	}
	return infra, nil
}

// Read reads an object of a kind whose Go type is not known, live, in the version that the API
// server prefers. It returns nil without an error when the object, or its whole kind, does not
// exist: older infrastructure providers lack some kinds. Other errors are *reason.Problem.
func Read(ctx context.Context, reader client.Reader, mapper meta.RESTMapper, kind schema.GroupKind, name client.ObjectKey) (*unstructured.Unstructured, error) {
	mapping, err := mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable(kind.Kind, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := reader.Get(ctx, name, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, unavailable(kind.Kind, err)
	}
	return object, nil
}

// unavailable tells what could not be read and the API server's one-word reason, nothing more.
func unavailable(what string, err error) error {
	return reason.New(reason.ManagementUnavailable, "reading %s from the management cluster: %s", what, orUnreachable(apierrors.ReasonForError(err)))
}

func orUnreachable(r metav1.StatusReason) metav1.StatusReason {
	if r == metav1.StatusReasonUnknown {
		return "no answer"
	}
	return r
}

func machineNames(machines []clusterv1.Machine) string {
	names := make([]string, 0, len(machines))
	for i := range machines {
		names = append(names, machines[i].Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
