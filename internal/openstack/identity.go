package openstack

import (
	"cmp"
	"context"
	"crypto/x509"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
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
func (s *Source) identity(ctx context.Context, o owner.Owner) (*session, error) {
	ref, found, err := refOf(o.Infrastructure)
	if err != nil {
		return nil, err
	}
	if !found {
		if ref, err = s.clusterRef(ctx, o); err != nil {
			return nil, err
		}
	}
	if ref.kind != "" && ref.kind != "Secret" {
		return nil, reason.New(reason.CredentialNotSupported, "identityRef is of type %s, expected Secret", reason.Quote(ref.kind))
	}
	name := client.ObjectKey{Namespace: o.Cluster.Namespace, Name: ref.name}
	secret := &corev1.Secret{}
	if err := s.Reader.Get(ctx, name, secret); apierrors.IsNotFound(err) {
		return nil, reason.New(reason.CredentialMissing, "Secret %s does not exist", reason.Quote(ref.name))
	} else if err != nil {
		return nil, reason.New(reason.ManagementUnavailable, "reading Secret %s from the management cluster: %s",
			reason.Quote(ref.name), cmp.Or(apierrors.ReasonForError(err), "no answer"))
	}
	return s.clients.get(ctx, secret, ref)
}

func (s *Source) clusterRef(ctx context.Context, o owner.Owner) (identityRef, error) {
	ref := o.Cluster.Spec.InfrastructureRef
	if ref.APIGroup != Group || ref.Kind != "OpenStackCluster" {
		return identityRef{}, reason.New(reason.CredentialMissing, "OpenStackMachine %s has no identityRef, and the Cluster's infrastructure is no OpenStackCluster",
			o.Infrastructure.GetName())
	}
	name := client.ObjectKey{Namespace: o.Cluster.Namespace, Name: ref.Name}
	cluster, err := owner.Read(ctx, s.Reader, s.Mapper, kind("OpenStackCluster"), name)
	if err != nil {
		return identityRef{}, err
	}
	if cluster == nil {
		return identityRef{}, reason.New(reason.InfrastructureMissing, "OpenStackCluster %s does not exist", ref.Name)
	}
	found, ok, err := refOf(cluster)
	if err == nil && !ok {
		err = reason.New(reason.CredentialMissing, "neither OpenStackMachine %s nor OpenStackCluster %s has an identityRef", o.Infrastructure.GetName(), ref.Name)
	}
	return found, err
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

// roots returns the CAs that a credential trusts; nil means the system's. A bundle may hold
// comments; it is bad only when no certificate in it parses, and then it is refused: the system's
// CAs are no substitute for the one that was meant.
func roots(secret *corev1.Secret) (*x509.CertPool, error) {
	bundle := secret.Data[keyCA]
	if len(bundle) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, invalid("key %s of Secret %s holds no certificate", keyCA, secret.Name)
	}
	return pool, nil
}

// undecodable turns a decoder's error into a reason, and nil into nil.
func undecodable(object *unstructured.Unstructured, field string, err error) error {
	if err == nil {
		return nil
	}
	return reason.New(reason.OwnershipRecordInvalid, "%s %s: %s is not of the expected form", object.GetKind(), object.GetName(), field)
}
