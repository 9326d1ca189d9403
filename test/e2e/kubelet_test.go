package e2e

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// E01, E11, E48, E70, E71: a kubelet that has just registered asks, is approved within a second, and
// the API server reaches it through TLS that it verifies. The node has no nodeRef and no CNI.
func TestKubelet(t *testing.T) {
	for name, c := range map[string]*stage.Cluster{"real": cluster, "played": played} {
		t.Run(name, func(t *testing.T) {
			if name == "real" && !c.Workload.RealKubelets {
				t.Skip("no real kubelets on this machine; the test bed said why")
			}
			// Both clusters are in one namespace.
			worker := name + "-worker-0"
			clock, err := c.NewStopwatch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer clock.Stop()
			m, err := c.AddMachine(t.Context(), worker)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.StartNode(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if err := c.Workload.WaitHealthz(t.Context(), worker, time.Minute); err != nil {
				t.Fatal(err)
			}
			requests, err := c.Workload.Requests(t.Context(), worker)
			if err != nil || len(requests) == 0 {
				t.Fatal("no request", err)
			}
			csr := requests[len(requests)-1]
			took, ok := clock.Approval(csr.Name)
			t.Logf("approved %s after its creation", took)
			if !ok || took > time.Second {
				t.Errorf("approved %s after its creation (%t), promised is a second", took, ok)
			}
			block, _ := pem.Decode(csr.Status.Certificate)
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if len(cert.IPAddresses) != 1 || cert.IPAddresses[0].String() != m.Address.String() {
				t.Errorf("the certificate is for %v, expected %s", cert.IPAddresses, m.Address)
			}
			note, err := theStage.WaitEvent(t.Context(), m.Machine.Machine, string(reason.Approved), soon)
			if err != nil || !strings.Contains(note, csr.Name) {
				t.Errorf("note %q, %v", note, err)
			}
		})
	}
}
