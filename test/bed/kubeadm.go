package bed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeadmConfig has the version, the advertised address and port, the certificates' folder and the
// address that the API server listens on. Without the version kubeadm would ask the internet for it.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: %[2]s
  bindPort: %[3]d
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %[1]s
certificatesDir: %[4]s
controlPlaneEndpoint: %[5]s:%[3]d
apiServer:
  certSANs: [%[5]s, 127.0.0.1, localhost]
networking:
  serviceSubnet: 10.96.0.0/16
`

// makePKI has kubeadm make the cluster's keys, certificates and kubeconfigs, and reads the
// administrator's. The API server will listen on host:port.
func (w *Workload) makePKI(ctx context.Context, host string, port int) error {
	kubeadm, err := w.bed.part(ctx, "kubeadm")
	if err != nil {
		return err
	}
	version, err := toolOutput(ctx, kubeadm, "version", "-o", "short")
	if err != nil {
		return err
	}
	w.pki = filepath.Join(w.dir(), "pki")
	config := filepath.Join(w.dir(), "kubeadm.yaml")
	// kubeadm replaces a loopback address by one of the machine's own. The gateway's is left alone.
	text := fmt.Sprintf(kubeadmConfig, strings.TrimSpace(version), w.bed.gateway(), port, w.pki, host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	if err := tool(ctx, kubeadm, "init", "phase", "certs", "all", "--config", config); err != nil {
		return err
	}
	for _, name := range []string{"super-admin", "controller-manager"} {
		if err := tool(ctx, kubeadm, "init", "phase", "kubeconfig", name, "--config", config, "--kubeconfig-dir", w.dir()); err != nil {
			return err
		}
		if err := setServer(filepath.Join(w.dir(), name+".conf"), w.url); err != nil {
			return err
		}
	}
	if w.authority, err = loadAuthority(filepath.Join(w.pki, "ca.crt"), filepath.Join(w.pki, "ca.key")); err != nil {
		return err
	}
	// Cluster API's own kubeconfig is in the group system:masters too.
	kubeconfig, err := os.ReadFile(filepath.Join(w.dir(), "super-admin.conf"))
	if err != nil {
		return err
	}
	return w.setAdmin(kubeconfig)
}

// setServer points a kubeconfig at the address that the API server really listens on: kubeadm
// writes the advertised one into some of them.
func setServer(path, url string) error {
	kubeconfig, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	for _, cluster := range kubeconfig.Clusters {
		cluster.Server = url
	}
	return clientcmd.WriteToFile(*kubeconfig, path)
}

// bindings are those that kubeadm makes: for administrators, for the API server when it calls a
// kubelet, and for the automatic approval of kubelets' *client* certificates.
var bindings = []struct{ role, kind, subject string }{
	{"cluster-admin", rbacv1.GroupKind, "kubeadm:cluster-admins"},
	{"system:kubelet-api-admin", rbacv1.UserKind, "kube-apiserver-kubelet-client"},
	{"system:node-bootstrapper", rbacv1.GroupKind, "system:bootstrappers:kubeadm:default-node-token"},
	{"system:certificates.k8s.io:certificatesigningrequests:nodeclient", rbacv1.GroupKind, "system:bootstrappers:kubeadm:default-node-token"},
	{"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", rbacv1.GroupKind, "system:nodes"},
}

func (w *Workload) createBindings(ctx context.Context) error {
	for _, b := range bindings {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "bed:" + b.role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: b.kind, Name: b.subject}},
		}
		if _, err := w.Clientset.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
