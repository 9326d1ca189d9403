package owner

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Indexes of the Machine cache. Both are keyed by cluster and node name, so that Machines of
// another cluster in the same namespace are never candidates (A20).
const (
	byNodeName = "csr-approver/node-name"
	byNodeRef  = "csr-approver/node-ref"
)

// SetupIndexes adds what Find needs to the manager's cache: Machines by each name that their node
// may have, and by the node that Cluster API linked them to.
func SetupIndexes(ctx context.Context, indexer client.FieldIndexer, domains []string) error {
	if err := indexer.IndexField(ctx, &clusterv1.Machine{}, byNodeName, func(o client.Object) []string {
		return nodeNameKeys(o.(*clusterv1.Machine), domains)
	}); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &clusterv1.Machine{}, byNodeRef, func(o client.Object) []string {
		m := o.(*clusterv1.Machine)
		if !m.Status.NodeRef.IsDefined() {
			return nil
		}
		return []string{key(m.Spec.ClusterName, m.Status.NodeRef.Name)}
	})
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
