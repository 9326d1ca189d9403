// Package bed starts the real parts of a Cluster API installation as processes on this machine:
//
//   - a management cluster: etcd and kube-apiserver with the CustomResourceDefinitions of Cluster
//     API and of its OpenStack provider. Nothing reconciles there: what the providers would write
//     is written by [Management.AddCluster] and [Management.AddMachine];
//   - workload clusters with a PKI made by kubeadm, kube-apiserver with kubelet verification on,
//     and kube-controller-manager, which signs what was approved;
//   - nodes. On Linux as root each is a kubelet in a network namespace of its own, on a container
//     runtime that runs nothing. Elsewhere a node is played: client-go's certificate manager, fed
//     as the kubelet feeds it, behind a small HTTPS server. [RealKubelets] says which it will be.
//
// All listen on loopback or on a bridge that belongs to the bed. [Bed.Close] ends and removes all
// of it; what a killed bed left behind is removed by the next one.
//
//	b, err := bed.New(ctx, bed.Options{Log: func(s string) { t.Log(s) }})
//	defer b.Close()
//	mgmt, err := b.Management(ctx)
//	cluster, err := b.Workload(ctx, bed.WorkloadSpec{Name: "c1"})
//	node, err := cluster.StartNode(ctx, bed.NodeSpec{Name: "c1-md-0-abcde"})
//	request, err := cluster.WaitRequest(ctx, node.Name)
package bed
