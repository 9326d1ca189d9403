package bed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const kubeletPort = 10250

// NodeSpec describes a node. Only the name is required.
type NodeSpec struct {
	// Name is the Node's name.
	Name string
	// Addresses are those that lead to this node. The first is the one it registers with, as
	// InternalIP; empty means one from the bed's subnet. The first address of a real node has to
	// be in that subnet.
	Addresses []netip.Addr
	// KubeletConfig is laid over the top-level fields of a real kubelet's KubeletConfiguration.
	KubeletConfig map[string]any
	// KubeletArgs are added to a real kubelet's. With "--cloud-provider=external" it keeps the
	// addresses that SetAddresses gives its Node; without, it restores its own within 10 s. A
	// played kubelet always keeps them.
	KubeletArgs []string
}

// Node is a node of a workload cluster.
type Node struct {
	// Name is the Node's name.
	Name string
	// Addresses are those that lead to this node, the one it registered with first.
	Addresses []netip.Addr
	// Config authenticates as the node itself: user system:node:NAME, group system:nodes. The
	// node authorizer and NodeRestriction apply to it.
	Config *rest.Config

	cluster *Workload
	mu      sync.Mutex
	kubelet kubelet
}

// kubelet is a real or a played one.
type kubelet interface {
	// start returns when the kubelet runs; it registers its Node later.
	start(ctx context.Context) error
	// stop may be called when it does not run.
	stop()
	// waitReady polls check, as process.waitReady does.
	waitReady(ctx context.Context, limit time.Duration, check func(context.Context) error) error
}

// StartNode starts a node and returns when it is registered with its addresses. Its request for a
// serving certificate follows within seconds.
func (w *Workload) StartNode(ctx context.Context, spec NodeSpec) (_ *Node, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("node %s: %w", spec.Name, err)
		}
	}()
	addresses := spec.Addresses
	if len(addresses) == 0 {
		addresses = []netip.Addr{w.bed.NewAddress()}
	}
	n := &Node{Name: spec.Name, Addresses: addresses, cluster: w}
	if err := w.addNode(n); err != nil {
		return nil, err
	}
	if err := w.setUpNode(ctx, n, spec); err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}

// addNode makes Stop know the node.
func (w *Workload) addNode(n *Node) error {
	w.nodesMu.Lock()
	defer w.nodesMu.Unlock()
	if w.nodes[n.Name] != nil {
		return errors.New("the cluster has a node of this name")
	}
	w.nodes[n.Name] = n
	return nil
}

// setUpNode gives the node its credentials and its kubelet, which does not run yet.
func (w *Workload) setUpNode(ctx context.Context, n *Node, spec NodeSpec) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	kubeconfig, err := w.KubeconfigAs("system:node:"+spec.Name, "system:nodes")
	if err != nil {
		return err
	}
	if n.Config, err = configOf(kubeconfig); err != nil {
		return err
	}
	var k kubelet
	if w.RealKubelets {
		k, err = w.newRealKubelet(ctx, n, spec, kubeconfig)
	} else {
		k, err = w.newPlayedKubelet(n)
	}
	if err == nil {
		n.kubelet = k
	}
	return err
}

// Start starts a stopped node again, with its key and certificate if it had one.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.kubelet.start(ctx); err != nil {
		return err
	}
	return n.kubelet.waitReady(ctx, time.Minute, func(ctx context.Context) error {
		addresses, err := n.cluster.NodeAddresses(ctx, n.Name)
		if err == nil && len(addresses) == 0 {
			err = errors.New("the Node has no addresses")
		}
		return err
	})
}

// Stop ends the node's kubelet. The Node object stays.
func (n *Node) Stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kubelet != nil {
		n.kubelet.stop()
	}
}

// NodeAddresses returns the addresses in the Node's status: what its kubelet asks a certificate for.
func (w *Workload) NodeAddresses(ctx context.Context, name string) ([]corev1.NodeAddress, error) {
	node, err := w.Clientset.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return node.Status.Addresses, nil
}

// SetAddresses writes the addresses in the Node's status, in the role of the cloud controller
// manager. It does not change where connections lead.
func (w *Workload) SetAddresses(ctx context.Context, name string, addresses []corev1.NodeAddress) error {
	node, err := w.Clientset.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node.Status.Addresses = addresses
	_, err = w.Clientset.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// nextIndex numbers the nodes of all clusters of the bed, for names with little room.
func (b *Bed) nextIndex() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.devices++
	return strconv.FormatInt(int64(b.devices), 36)
}
