package owner

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Indexes of the Machine cache. All are keyed by the cluster and a name or an address, so that Machines of
// another cluster in the same namespace are never candidates (A20).
const (
	byNodeName = "csr-approver/node-name"
	byNodeRef  = "csr-approver/node-ref"
	byAddress  = "csr-approver/address"
	byInstance = "csr-approver/instance"
)

// undecodable stands in the index for an address that cannot be read. It is no address, so
// nothing else has this key.
const undecodable = "undecodable"

// SetupIndexes adds what Find and Others need to the manager's cache: Machines by each name that
// their node may have, by the node that Cluster API linked them to, and by each recorded address.
func SetupIndexes(ctx context.Context, indexer client.FieldIndexer, domains []string) error {
	if err := indexer.IndexField(ctx, &clusterv1.Machine{}, byNodeName, func(o client.Object) []string {
		return nodeNameKeys(o.(*clusterv1.Machine), domains)
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &clusterv1.Machine{}, byNodeRef, func(o client.Object) []string {
		m := o.(*clusterv1.Machine)
		if !m.Status.NodeRef.IsDefined() {
			return nil
		}
		return []string{key(m.Spec.ClusterName, m.Status.NodeRef.Name)}
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &clusterv1.Machine{}, byInstance, func(o client.Object) []string {
		m := o.(*clusterv1.Machine)
		if m.Spec.ProviderID == "" {
			return nil
		}
		return []string{key(m.Spec.ClusterName, instance(m.Spec.ProviderID))}
	}); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &clusterv1.Machine{}, byAddress, func(o client.Object) []string {
		return addressKeys(o.(*clusterv1.Machine))
	})
}

// instance is what names the machine in a provider ID, in every provider's: the part after the last
// slash. What is before it, a region for one, is written with and without.
func instance(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// addressKeys are the addresses that the infrastructure provider recorded for a Machine.
func addressKeys(m *clusterv1.Machine) []string {
	var keys []string
	for _, recorded := range m.Status.Addresses {
		switch recorded.Type {
		case clusterv1.MachineInternalIP, clusterv1.MachineExternalIP:
		default:
			continue // a name
		}
		text := undecodable
		if addr, err := netip.ParseAddr(recorded.Address); err == nil {
			text = addr.Unmap().WithZone("").String()
		}
		if k := key(m.Spec.ClusterName, text); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// NodeNames are the names that a Machine's node may have.
func NodeNames(m *clusterv1.Machine, domains []string) []string {
	return Forms(m.Spec.InfrastructureRef.Name, domains)
}

func nodeNameKeys(m *clusterv1.Machine, domains []string) []string {
	names := NodeNames(m, domains)
	for i, name := range names {
		names[i] = key(m.Spec.ClusterName, name)
	}
	return names
}

// key separates with a character that neither a cluster's nor a node's name can hold.
func key(cluster, node string) string { return cluster + "/" + node }
