package openstack

import (
	"cmp"
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// Keys of a credential Secret, as Cluster API's OpenStack provider reads them.
const (
	keyClouds = "clouds.yaml"
	keyCA     = "cacert"
)

// identityRef says where a machine's credential is. The fields have the same paths in all versions
// of the OpenStack provider's API that are in use.
type identityRef struct {
	kind, name, cloud, region string
}

// identity resolves a machine's credential the way the provider does: the machine's own identityRef,
// else the OpenStackCluster's (A21).
func (s *Source) identity(ctx context.Context, o owner.Owner, cluster *unstructured.Unstructured) (*session, error) {
	ref, found, err := refOf(o.Infrastructure)
	if err == nil && !found && cluster != nil {
		ref, found, err = refOf(cluster)
	}
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, reason.New(reason.CredentialMissing, "neither OpenStackMachine %s nor the Cluster's OpenStackCluster has an identityRef", o.Infrastructure.GetName())
	}
	name := client.ObjectKey{Namespace: o.Cluster.Namespace, Name: ref.name}
	switch ref.kind {
	case "", "Secret":
	case "ClusterIdentity":
		if name, err = s.clusterIdentity(ctx, ref.name, o.Cluster.Namespace); err != nil {
			return nil, err
		}
	default:
		return nil, reason.New(reason.CredentialNotSupported, "identityRef is of type %s, expected Secret or ClusterIdentity", reason.Quote(ref.kind))
	}
	secret := &corev1.Secret{}
	if err := s.Reader.Get(ctx, name, secret); apierrors.IsNotFound(err) {
		return nil, reason.New(reason.CredentialMissing, "Secret %s does not exist", reason.Quote(name.Name))
	} else if err != nil {
		return nil, unreadable("Secret", name.Name, err)
	}
	return s.clients.get(ctx, secret, ref)
}

// clusterIdentity returns the Secret of an OpenStackClusterIdentity, if the Cluster's namespace may
// use it. That is looked at for each verdict, so taking a label away works at once.
func (s *Source) clusterIdentity(ctx context.Context, name, namespace string) (client.ObjectKey, error) {
	identity, err := owner.Read(ctx, s.Reader, s.Mapper, kind("OpenStackClusterIdentity"), client.ObjectKey{Name: name})
	if err != nil {
		return client.ObjectKey{}, err
	}
	if identity == nil {
		return client.ObjectKey{}, reason.New(reason.CredentialMissing, "OpenStackClusterIdentity %s does not exist", reason.Quote(name))
	}
	var spec struct {
		SecretRef         corev1.SecretReference `json:"secretRef"`
		NamespaceSelector *metav1.LabelSelector  `json:"namespaceSelector"`
	}
	fields, _, err := unstructured.NestedMap(identity.Object, "spec")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec)
	}
	if err != nil || spec.SecretRef.Name == "" || spec.SecretRef.Namespace == "" {
		return client.ObjectKey{}, reason.New(reason.OwnershipRecordInvalid, "OpenStackClusterIdentity %s: spec is not of the expected form", identity.GetName())
	}
	secret := client.ObjectKey{Namespace: spec.SecretRef.Namespace, Name: spec.SecretRef.Name}
	if spec.NamespaceSelector == nil {
		return secret, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.NamespaceSelector)
	if err != nil {
		return client.ObjectKey{}, reason.New(reason.OwnershipRecordInvalid, "OpenStackClusterIdentity %s: spec.namespaceSelector is no label selector", identity.GetName())
	}
	var object corev1.Namespace
	if err := s.Reader.Get(ctx, client.ObjectKey{Name: namespace}, &object); err != nil {
		return client.ObjectKey{}, unreadable("Namespace", namespace, err)
	}
	if !selector.Matches(labels.Set(object.Labels)) {
		return client.ObjectKey{}, reason.New(reason.CredentialNotAllowed, "OpenStackClusterIdentity %s is not for namespace %s", identity.GetName(), namespace)
	}
	return secret, nil
}

// cluster reads the Cluster's OpenStackCluster; nil when its infrastructure is of another kind.
func (s *Source) cluster(ctx context.Context, o owner.Owner) (*unstructured.Unstructured, error) {
	ref := o.Cluster.Spec.InfrastructureRef
	if ref.APIGroup != Group || ref.Kind != "OpenStackCluster" {
		return nil, nil
	}
	cluster, err := owner.Read(ctx, s.Reader, s.Mapper, kind("OpenStackCluster"), client.ObjectKey{Namespace: o.Cluster.Namespace, Name: ref.Name})
	if err == nil && cluster == nil {
		err = reason.New(reason.InfrastructureMissing, "OpenStackCluster %s does not exist", ref.Name)
	}
	return cluster, err
}

// loadBalancer returns the addresses of the API server's load balancer. Only workers are refused
// them: the provider may put the API's floating IP on a control plane server.
func loadBalancer(o owner.Owner, cluster *unstructured.Unstructured) ([]verdict.Reserved, error) {
	if cluster == nil || o.ControlPlane() {
		return nil, nil
	}
	var reserved []verdict.Reserved
	for _, field := range []string{"ip", "internalIP"} {
		text, _, err := unstructured.NestedString(cluster.Object, "status", "apiServerLoadBalancer", field)
		if err != nil {
			return nil, undecodable(cluster, "status.apiServerLoadBalancer", err)
		}
		if text == "" {
			continue
		}
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, undecodable(cluster, "status.apiServerLoadBalancer", err)
		}
		reserved = append(reserved, verdict.Reserved{Address: addr, What: "the API server's load balancer"})
	}
	return reserved, nil
}

// refOf reads spec.identityRef, and false when there is none.
func refOf(object *unstructured.Unstructured) (ref identityRef, found bool, err error) {
	fields, found, err := unstructured.NestedMap(object.Object, "spec", "identityRef")
	if err != nil || !found {
		return identityRef{}, false, undecodable(object, "spec.identityRef", err)
	}
	for field, into := range map[string]*string{"type": &ref.kind, "name": &ref.name, "cloudName": &ref.cloud, "region": &ref.region} {
		if *into, _, err = unstructured.NestedString(fields, field); err != nil {
			return identityRef{}, false, undecodable(object, "spec.identityRef", err)
		}
	}
	if ref.name == "" {
		return identityRef{}, false, reason.New(reason.CredentialMissing, "%s %s: identityRef has no name", object.GetKind(), object.GetName())
	}
	return ref, true, nil
}

// undecodable turns a decoder's error into a reason, and nil into nil.
func undecodable(object *unstructured.Unstructured, field string, err error) error {
	if err == nil {
		return nil
	}
	return reason.New(reason.OwnershipRecordInvalid, "%s %s: %s is not of the expected form", object.GetKind(), object.GetName(), field)
}

func unreadable(what, name string, err error) error {
	return reason.New(reason.ManagementUnavailable, "reading %s %s from the management cluster: %s",
		what, reason.Quote(name), cmp.Or(apierrors.ReasonForError(err), "no answer"))
}
