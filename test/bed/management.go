package bed

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Management is a management cluster: an API server with RBAC and the types of Cluster API and of
// its OpenStack provider. There is no controller: nothing is reconciled, garbage collected or
// removed with its namespace.
type Management struct {
	API
	// Client is the administrator's. It knows Kubernetes' own types and Cluster API's v1beta2.
	Client client.WithWatch
}

// Management starts the bed's management cluster, once, and returns when its types are served. The
// arguments are added to kube-apiserver's.
func (b *Bed) Management(ctx context.Context, apiServerArgs ...string) (_ *Management, err error) {
	begin := time.Now()
	b.logf("management cluster: starting etcd and kube-apiserver")
	m := &Management{API: API{bed: b, name: "management"}}
	if err := b.onClose(m.stop); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.stop()
			err = fmt.Errorf("management cluster: %w", err)
		}
	}()
	if err := os.Mkdir(m.dir(), 0o700); err != nil {
		return nil, err
	}
	if err := m.start(ctx, apiServerArgs); err != nil {
		return nil, err
	}
	if err := m.installCRDs(ctx); err != nil {
		return nil, err
	}
	b.logf("management cluster: ready after %.1f s at %s", time.Since(begin).Seconds(), m.url)
	return m, nil
}

func (m *Management) start(ctx context.Context, apiServerArgs []string) error {
	etcd, err := m.bed.managementPart(ctx, "etcd")
	if err != nil {
		return err
	}
	apiserver, err := m.bed.managementPart(ctx, "kube-apiserver")
	if err != nil {
		return err
	}
	port, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	m.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	if m.authority, err = newAuthority("management"); err != nil {
		return err
	}
	if err := m.writePKI(); err != nil {
		return err
	}
	admin, err := m.KubeconfigAs("kubernetes-admin", "system:masters")
	if err != nil {
		return err
	}
	if err := m.setAdmin(admin); err != nil {
		return err
	}
	if m.Client, err = client.NewWithWatch(m.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	etcdURL, err := m.startEtcd(ctx, etcd)
	if err != nil {
		return err
	}
	m.command = append([]string{apiserver, "--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		// There is no Endpoints object to keep: a loopback address is not allowed in one.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + m.file("apiserver.crt"), "--tls-private-key-file=" + m.file("apiserver.key"),
		"--client-ca-file=" + m.file("ca.crt"),
		"--service-account-key-file=" + m.file("sa.key"), "--service-account-signing-key-file=" + m.file("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC",
	}, apiServerArgs...)
	return m.StartAPIServer(ctx)
}

// writePKI writes the files that kube-apiserver reads. It is not kubeadm's work here, because the
// folder that KUBEBUILDER_ASSETS names has no kubeadm.
func (m *Management) writePKI() error {
	cert, key, err := m.authority.issue(x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	_, serviceAccountKey, err := newKey()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"apiserver.crt": cert, "apiserver.key": key, "ca.crt": m.authority.pem, "sa.key": serviceAccountKey,
	} {
		if err := os.WriteFile(m.file(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (m *Management) file(name string) string { return filepath.Join(m.dir(), name) }

// scheme holds the types that the bed writes with Go types.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // two types of one name: a mistake in the list above
		}
	}
	return s
}()

// getOK fails unless a plain GET answers 200.
func getOK(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
