package bed

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

// register creates the Node, unless it is there: then its addresses stay as they are.
func (k *playedKubelet) register(ctx context.Context) error {
	n := k.node
	_, err := k.clientset.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelHostname: n.Name}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: n.Addresses[0].String()},
				{Type: corev1.NodeHostName, Address: n.Name},
			},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// heartbeat renews the node's Lease every 10 s, so that the node stays Ready.
func (k *playedKubelet) heartbeat(ctx context.Context) {
	leases := k.clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: k.node.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &k.node.Name, LeaseDurationSeconds: ptr.To[int32](40)},
	}
	for {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		// A missed renewal is repaired by the next one. Without a resourceVersion the update overwrites.
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Second):
		}
	}
}

// addressWatch follows the addresses in one Node's status.
type addressWatch struct {
	name  string
	store cache.Store
}

// newAddressWatch returns a watch and the function that runs it until ctx ends.
func newAddressWatch(name string, clientset kubernetes.Interface) (*addressWatch, func(ctx context.Context)) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "nodes", "", selector),
		ObjectType:    &corev1.Node{},
		Handler:       cache.ResourceEventHandlerFuncs{},
	})
	return &addressWatch{name: name, store: store}, controller.RunWithContext
}

// get returns no address while the Node is unknown.
func (a *addressWatch) get() []corev1.NodeAddress {
	node, known, err := a.store.GetByKey(a.name)
	if err != nil || !known {
		return nil
	}
	return node.(*corev1.Node).Status.Addresses
}

// servingTemplate is what a kubelet of Kubernetes 1.36 asks for: nil, so nothing, without an IP
// address (pkg/kubelet/certificate/kubelet.go).
func servingTemplate(node string, addresses []corev1.NodeAddress) *x509.CertificateRequest {
	var names []string
	ips := map[string]net.IP{} // by the text they were given in, as the kubelet tells them apart
	for _, address := range addresses {
		ip := netutils.ParseIPSloppy(address.Address)
		switch address.Type {
		case corev1.NodeHostName:
			if ip != nil {
				ips[address.Address] = ip
			} else if address.Address != "" {
				names = append(names, address.Address)
			}
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			if ip != nil {
				ips[address.Address] = ip
			}
		case corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			if address.Address != "" {
				names = append(names, address.Address)
			}
		}
	}
	if len(ips) == 0 {
		return nil
	}
	slices.Sort(names)
	template := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: slices.Compact(names),
	}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, ip)
	}
	slices.SortFunc(template.IPAddresses, func(a, b net.IP) int { return strings.Compare(a.String(), b.String()) })
	return template
}
