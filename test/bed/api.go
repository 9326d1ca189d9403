package bed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// API is a running etcd with its kube-apiserver, and the ways to reach it.
type API struct {
	// Config is the administrator's (group system:masters), without client-side throttling.
	Config *rest.Config
	// Kubeconfig is the administrator's, with all data inline, as Cluster API keeps it in a Secret.
	Kubeconfig []byte
	// Clientset is the administrator's.
	Clientset *kubernetes.Clientset

	bed       *Bed
	name      string
	url       string
	authority *authority

	mu        sync.Mutex
	etcd      *process
	apiserver *process
	command   []string // of kube-apiserver
}

// As returns a configuration that authenticates as the given user and groups by a client
// certificate, which is valid for one day.
func (a *API) As(user string, groups ...string) (*rest.Config, error) {
	data, err := a.KubeconfigAs(user, groups...)
	if err != nil {
		return nil, err
	}
	return configOf(data)
}

// KubeconfigAs returns the same as a kubeconfig with all data inline.
func (a *API) KubeconfigAs(user string, groups ...string) ([]byte, error) {
	cert, key, err := a.authority.issueClient(user, groups)
	if err != nil {
		return nil, fmt.Errorf("a client certificate for %s: %w", user, err)
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[a.name] = &clientcmdapi.Cluster{Server: a.url, CertificateAuthorityData: a.authority.pem}
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	kubeconfig.Contexts[a.name] = &clientcmdapi.Context{Cluster: a.name, AuthInfo: user}
	kubeconfig.CurrentContext = a.name
	return clientcmd.Write(*kubeconfig)
}

func configOf(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// setAdmin fills the exported fields.
func (a *API) setAdmin(kubeconfig []byte) (err error) {
	a.Kubeconfig = kubeconfig
	if a.Config, err = configOf(kubeconfig); err != nil {
		return err
	}
	a.Clientset, err = kubernetes.NewForConfig(a.Config)
	return err
}

// StartAPIServer starts kube-apiserver and waits until it is ready, up to two minutes.
func (a *API) StartAPIServer(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, err := a.bed.start(a.name+"-kube-apiserver", a.command[0], a.command[1:]...)
	if err != nil {
		return err
	}
	a.apiserver = p
	return p.waitReady(ctx, 2*time.Minute, func(ctx context.Context) error {
		return a.Clientset.RESTClient().Get().AbsPath("/readyz").Timeout(5 * time.Second).Do(ctx).Error()
	})
}

// StopAPIServer ends kube-apiserver. etcd keeps its data and StartAPIServer brings it back under
// the same address.
func (a *API) StopAPIServer() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.apiserver.stop(5 * time.Second)
	a.apiserver = nil
}

// stop ends both processes.
func (a *API) stop() {
	a.StopAPIServer()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.etcd.stop(2 * time.Second)
}

// startEtcd starts an etcd of this API's own on loopback and returns its URL.
func (a *API) startEtcd(ctx context.Context, path string) (string, error) {
	client, err1 := freePort("127.0.0.1")
	peer, err2 := freePort("127.0.0.1")
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	url, peerURL := fmt.Sprintf("http://127.0.0.1:%d", client), fmt.Sprintf("http://127.0.0.1:%d", peer)
	p, err := a.bed.start(a.name+"-etcd", path,
		"--data-dir="+filepath.Join(a.dir(), "etcd"),
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL,
		"--initial-cluster=default="+peerURL,
		"--unsafe-no-fsync", "--log-level=warn")
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	a.etcd = p
	a.mu.Unlock()
	return url, p.waitReady(ctx, time.Minute, func(ctx context.Context) error { return getOK(ctx, url+"/health") })
}

// dir is the folder of this API's files.
func (a *API) dir() string { return filepath.Join(a.bed.tmp, a.name) }
