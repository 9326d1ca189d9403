package owner

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// defaultServiceCIDR is kubeadm's, which a Cluster without service ranges gets.
const defaultServiceCIDR = "10.96.0.0/12"

// providerID returns the ID that the Machine and its infrastructure object agree on. Cluster API
// copies it from one to the other, so a difference means that somebody wrote one of them (A23).
func providerID(m *clusterv1.Machine, infra *unstructured.Unstructured) (string, error) {
	id, _, err := unstructured.NestedString(infra.Object, "spec", "providerID")
	if err != nil {
		return "", reason.New(reason.OwnershipRecordInvalid, "%s %s: spec.providerID is not text", infra.GetKind(), infra.GetName())
	}
	switch {
	case id == "":
		return "", reason.New(reason.ProviderIDMissing, "%s %s has no spec.providerID yet", infra.GetKind(), infra.GetName())
	case m.Spec.ProviderID == "":
		return "", reason.New(reason.ProviderIDMissing, "Machine %s has no spec.providerID yet", m.Name)
	case id != m.Spec.ProviderID:
		return "", reason.New(reason.ProviderIDMismatch, "Machine %s has %s, %s %s has %s",
			m.Name, reason.Quote(m.Spec.ProviderID), infra.GetKind(), infra.GetName(), reason.Quote(id))
	}
	return id, nil
}

// facts collects what the verdict must know of the cluster: the addresses that no node may have,
// and the ranges that real networks overlap (A08).
func facts(c *clusterv1.Cluster, m *clusterv1.Machine, names []string) (verdict.Owner, error) {
	o := verdict.Owner{Names: names}
	services := c.Spec.ClusterNetwork.Services.CIDRBlocks
	if len(services) == 0 {
		services = []string{defaultServiceCIDR}
	}
	for _, text := range services {
		cidr, err := prefix(c, text)
		if err != nil {
			return verdict.Owner{}, err
		}
		o.ClusterRanges = append(o.ClusterRanges, cidr)
		// kube-apiserver takes the first address of its range for the Service kubernetes.
		o.Reserved = append(o.Reserved, verdict.Reserved{Address: cidr.Addr().Next(), What: "the API server's service address"})
	}
	for _, text := range c.Spec.ClusterNetwork.Pods.CIDRBlocks {
		cidr, err := prefix(c, text)
		if err != nil {
			return verdict.Owner{}, err
		}
		o.ClusterRanges = append(o.ClusterRanges, cidr)
	}
	// The provider may put the API's floating IP on a control plane server, so only workers are
	// refused it.
	if !controlPlane(m) {
		if addr, err := netip.ParseAddr(c.Spec.ControlPlaneEndpoint.Host); err == nil {
			o.Reserved = append(o.Reserved, verdict.Reserved{Address: addr, What: "the cluster's control plane endpoint"})
		}
	}
	return o, nil
}

// prefix fails rather than skips: a range that cannot be read would otherwise not be guarded.
func prefix(c *clusterv1.Cluster, text string) (netip.Prefix, error) {
	cidr, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, reason.New(reason.OwnershipRecordInvalid, "Cluster %s: %s in spec.clusterNetwork is no address range",
			c.Name, reason.Quote(text))
	}
	return cidr.Masked(), nil
}

// ControlPlane tells whether the machine belongs to the control plane.
func (o Owner) ControlPlane() bool { return controlPlane(o.Machine) }

func controlPlane(m *clusterv1.Machine) bool {
	_, is := m.Labels[clusterv1.MachineControlPlaneLabel]
	return is
}
