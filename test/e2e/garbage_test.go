package e2e

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

const canary = "canary-4f1d"

// Garbage in gives a reason on the Cluster, and nothing else suffers from it.
func TestGarbageKubeconfigs(t *testing.T) {
	together(t)
	unreachable := bytes.ReplaceAll(cluster.Workload.Kubeconfig, []byte(cluster.Workload.Config.Host), []byte("https://127.0.0.1:1"))
	for name, test := range map[string]struct {
		kubeconfig []byte
		reason     reason.Reason
	}{
		"no-kubeconfig": {[]byte(canary + ": {"), reason.KubeconfigInvalid},
		"unreachable":   {unreachable, reason.ClusterUnavailable},
		"missing":       {nil, reason.KubeconfigMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object, err := theStage.Management.AddCluster(t.Context(), bed.ClusterSpec{
				Namespace: stage.Namespace, Name: "garbage-" + name, Kubeconfig: test.kubeconfig,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := approver.WaitLog(t.Context(), object.Name, "", string(test.reason), soon); err != nil {
				t.Fatal(err)
			}
			if test.reason.Outcome() != reason.Refuse {
				return // it may pass by itself, so the Event comes later
			}
			note, err := theStage.WaitEvent(t.Context(), object, string(test.reason), soon)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(note, canary) || !strings.Contains(note, test.reason.Entry().Remedy) {
				t.Errorf("note: %s", note)
			}
		})
	}
}

func TestGarbageCredentials(t *testing.T) {
	together(t)
	for name, test := range map[string]struct {
		clouds string
		reason reason.Reason
	}{
		"no-auth":  {"clouds: {default: {region_name: RegionOne}}", reason.CredentialInvalid},
		"no-yaml":  {canary + ": {", reason.CredentialInvalid},
		"insecure": {strings.Replace(cluster.Credential.CloudsYAML(), "https:", "http:", 1), reason.CredentialInsecure},
		"deleted":  {deletedCredential(), reason.CredentialRejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: stage.Namespace, Name: "garbage-" + name},
				Data:       map[string][]byte{"clouds.yaml": []byte(test.clouds), "cacert": theStage.Cloud.CAPEM()},
			}
			if err := theStage.Management.Client.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			node := "garbage-" + name
			m := machine(t, node, func(s *bed.MachineSpec) {
				s.Credential = bed.Credential{Name: secret.Name, CloudName: "default"}
			})
			csr := ask(t, node, bed.RequestSpec{DNS: []string{node}, IPs: []netip.Addr{m.Address}})
			if test.reason.Outcome() == reason.Refuse {
				refused(t, csr, m.Machine.Machine, test.reason)
			} else if err := approver.WaitLog(t.Context(), cluster.Name, node, string(test.reason), soon); err != nil {
				t.Error(err)
			}
		})
	}
}

func deletedCredential() string {
	c := cluster.Project.AddApplicationCredential("deleted")
	defer c.Delete()
	return c.CloudsYAML()
}
