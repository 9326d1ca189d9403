package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadSpec describes a workload cluster.
type WorkloadSpec struct {
	// Name is unique in the bed. It names the files, the logs and the kubeconfig's context.
	Name string
	// SigningDuration is the lifetime of the certificates that kube-controller-manager signs. Zero
	// leaves its default, one year.
	SigningDuration time.Duration
	// APIServerArgs and ControllerManagerArgs are added behind the bed's own arguments.
	APIServerArgs, ControllerManagerArgs []string
	// PlayedKubelets makes this cluster's nodes played ones, whatever the bed would use.
	PlayedKubelets bool
}

// Workload is a workload cluster.
type Workload struct {
	API
	// RealKubelets says whether its nodes are real kubelets.
	RealKubelets bool

	pki    string  // folder of kubeadm's certificates
	egress *egress // only with played kubelets

	controllerManager *process

	nodesMu sync.Mutex
	nodes   map[string]*Node
}

// Workload starts a workload cluster's control plane and returns when it is ready: the API server
// answers and kube-controller-manager works.
func (b *Bed) Workload(ctx context.Context, spec WorkloadSpec) (_ *Workload, err error) {
	begin := time.Now()
	realOnes, _ := b.RealKubelets()
	w := &Workload{API: API{bed: b, name: spec.Name}, RealKubelets: realOnes && !spec.PlayedKubelets, nodes: map[string]*Node{}}
	b.logf("workload cluster %s: starting etcd, kube-apiserver and kube-controller-manager", w.name)
	if err := b.onClose(w.Stop); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.Stop()
			err = fmt.Errorf("workload cluster %s: %w", spec.Name, err)
		}
	}()
	if err := os.Mkdir(w.dir(), 0o700); err != nil {
		return nil, err
	}
	if err := w.start(ctx, spec); err != nil {
		return nil, err
	}
	b.logf("workload cluster %s: ready after %.1f s at %s", w.name, time.Since(begin).Seconds(), w.url)
	return w, nil
}

func (w *Workload) start(ctx context.Context, spec WorkloadSpec) error {
	host := "127.0.0.1"
	if w.RealKubelets {
		// The nodes reach the API server over the bridge, in their own network namespaces.
		if err := w.bed.bridge(ctx); err != nil {
			return err
		}
		host = w.bed.gateway().String()
	}
	port, err := freePort(host)
	if err != nil {
		return err
	}
	w.url = fmt.Sprintf("https://%s:%d", host, port)
	if err := w.makePKI(ctx, host, port); err != nil {
		return err
	}
	if err := w.startControlPlane(ctx, host, port, spec); err != nil {
		return err
	}
	if err := w.createBindings(ctx); err != nil {
		return err
	}
	return w.startControllerManager(ctx, spec)
}

func (w *Workload) startControlPlane(ctx context.Context, host string, port int, spec WorkloadSpec) error {
	etcd, err := w.bed.part(ctx, "etcd")
	if err != nil {
		return err
	}
	etcdURL, err := w.startEtcd(ctx, etcd)
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(w.pki, name) }
	w.command = []string{filepath.Join(w.bed.bin, "kube-apiserver"), "--etcd-servers=" + etcdURL,
		"--bind-address=" + host, "--advertise-address=" + host, "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + file("apiserver.crt"), "--tls-private-key-file=" + file("apiserver.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--kubelet-client-certificate=" + file("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + file("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + file("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
		"--service-account-key-file=" + file("sa.pub"), "--service-account-signing-key-file=" + file("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=10.96.0.0/16", "--enable-bootstrap-token-auth=true",
		"--requestheader-client-ca-file=" + file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + file("front-proxy-client.crt"),
		"--proxy-client-key-file=" + file("front-proxy-client.key"),
	}
	if !w.RealKubelets {
		if w.egress, err = w.bed.newEgress(w.dir()); err != nil {
			return err
		}
		w.command = append(w.command, "--egress-selector-config-file="+w.egress.config,
			// A loopback address is not allowed in an Endpoints object.
			"--endpoint-reconciler-type=none")
	}
	w.command = append(w.command, spec.APIServerArgs...)
	return w.StartAPIServer(ctx)
}

func (w *Workload) startControllerManager(ctx context.Context, spec WorkloadSpec) error {
	kubeconfig := filepath.Join(w.dir(), "controller-manager.conf")
	file := func(name string) string { return filepath.Join(w.pki, name) }
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--cluster-signing-cert-file=" + file("ca.crt"), "--cluster-signing-key-file=" + file("ca.key"),
		"--root-ca-file=" + file("ca.crt"), "--service-account-private-key-file=" + file("sa.key"),
		"--use-service-account-credentials=true", "--controllers=*,bootstrapsigner,tokencleaner",
		"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0",
		// With the default of 20 requests a second its start takes 5 s longer.
		"--kube-api-qps=500", "--kube-api-burst=500",
	}
	if spec.SigningDuration > 0 {
		args = append(args, "--cluster-signing-duration="+spec.SigningDuration.String())
	}
	args = append(args, spec.ControllerManagerArgs...)
	p, err := w.bed.start(w.name+"-kube-controller-manager", filepath.Join(w.bed.bin, "kube-controller-manager"), args...)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.controllerManager = p
	w.mu.Unlock()
	// It serves nothing here. One of its controllers publishes this ConfigMap: then they run.
	return p.waitReady(ctx, time.Minute, func(ctx context.Context) error {
		_, err := w.Clientset.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

// Stop ends the cluster's nodes and control plane. It cannot be started again.
func (w *Workload) Stop() {
	w.nodesMu.Lock()
	var wg sync.WaitGroup
	for _, node := range w.nodes {
		wg.Go(node.Stop)
	}
	w.nodesMu.Unlock()
	wg.Wait()
	w.mu.Lock()
	w.controllerManager.stop(2 * time.Second)
	w.mu.Unlock()
	w.stop()
	w.egress.close()
}

var errNoNode = errors.New("the cluster has no such node")

// Node returns a node that StartNode started.
func (w *Workload) Node(name string) (*Node, error) {
	w.nodesMu.Lock()
	defer w.nodesMu.Unlock()
	if node := w.nodes[name]; node != nil {
		return node, nil
	}
	return nil, fmt.Errorf("%s: %w", name, errNoNode)
}
