package bed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// playedKubelet does in this process what a kubelet does about its serving certificate: it
// registers its Node, asks for a certificate for the Node's addresses with the kubelet's own
// library and serves /healthz with what it got.
type playedKubelet struct {
	node      *Node
	clientset *kubernetes.Clientset
	clientCAs *x509.CertPool
	store     memoryStore // survives a stop, as the kubelet's files do
	log       string

	stopRunning func() // nil when it does not run
}

func (w *Workload) newPlayedKubelet(n *Node) (kubelet, error) {
	clientset, err := kubernetes.NewForConfig(n.Config)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(w.authority.cert)
	return &playedKubelet{
		node: n, clientset: clientset, clientCAs: pool,
		log: filepath.Join(w.bed.Logs(), w.name+"-"+n.Name+"-kubelet.log"),
	}, nil
}

func (k *playedKubelet) start(ctx context.Context) error {
	out, err := os.OpenFile(k.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, out.Close())
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out)))
	running, cancel := context.WithCancel(klog.NewContext(k.node.cluster.bed.ctx, logger))
	addresses, follow := newAddressWatch(k.node.Name, k.clientset)
	manager, err := certificate.NewManager(&certificate.Config{
		ClientsetFn:      func(*tls.Certificate) (kubernetes.Interface, error) { return k.clientset, nil },
		GetTemplate:      func() *x509.CertificateRequest { return servingTemplate(k.node.Name, addresses.get()) },
		SignerName:       certificatesv1.KubeletServingSignerName,
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: &k.store,
		Ctx:              &running,
	})
	if err != nil {
		cancel()
		return errors.Join(err, listener.Close(), out.Close())
	}
	server := k.server(manager, log.New(out, "", log.LstdFlags))
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.ServeTLS(listener, "", "") })
	wg.Go(func() { follow(running) })
	wg.Go(func() { k.heartbeat(running) })
	manager.Start()
	k.routes(listener.Addr().String())
	k.stopRunning = func() {
		k.routes("")
		manager.Stop()
		cancel()
		_ = server.Close()
		wg.Wait()
		_ = out.Close()
	}
	if err := k.register(ctx); err != nil {
		k.stop()
		return err
	}
	return nil
}

func (k *playedKubelet) stop() {
	if k.stopRunning != nil {
		k.stopRunning()
		k.stopRunning = nil
	}
}

// routes makes the node's addresses lead to the loopback address, or nowhere when that is empty.
func (k *playedKubelet) routes(loopback string) {
	for _, address := range k.node.Addresses {
		k.node.cluster.egress.route(netip.AddrPortFrom(address, kubeletPort).String(), loopback)
	}
}

// server answers as the kubelet does for callers with a client certificate of the cluster.
func (k *playedKubelet) server(manager certificate.Manager, errorLog *log.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "ok")
	})
	return &http.Server{Handler: mux, ErrorLog: errorLog, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{
		ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs:  k.clientCAs,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if current := manager.Current(); current != nil {
				return current, nil
			}
			return nil, errors.New("no serving certificate available for the kubelet")
		},
	}}
}

func (k *playedKubelet) waitReady(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	return waitFor(ctx, k.node.cluster.bed, limit, check)
}

// memoryStore keeps the serving certificate.
type memoryStore struct {
	mu      sync.Mutex
	current *tls.Certificate
}

// Current returns the certificate, or the error by which the manager knows that there is none.
func (s *memoryStore) Current() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		none := certificate.NoCertKeyError("no serving certificate yet")
		return nil, &none
	}
	return s.current, nil
}

// Update replaces the certificate.
func (s *memoryStore) Update(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = &pair
	return s.current, nil
}
