package e2e

import (
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// The last test, because it is in the last file: it stops the approver, and starts another that serves labelled Clusters only.
func TestShutdownAndSelector(t *testing.T) {
	if approved, err := approver.Decisions(t.Context(), string(reason.Approved)); err != nil || approved == 0 {
		t.Errorf("csr_approver_decisions_total for Approved: %d, %v", approved, err)
	}
	if err := approver.Stop(10 * time.Second); err != nil {
		t.Errorf("after SIGTERM the approver ended with %v", err)
	}
	checkLog(t, approver.Log())

	second, err := theStage.StartApprover(t.Context(), "--cluster-selector=serve=yes", "--namespace="+stage.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := second.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
	}()
	m := machine(t, "selector")
	csr := ask(t, "selector", bed.RequestSpec{DNS: []string{"selector"}, IPs: []netip.Addr{m.Address}})
	if err := cluster.WaitApproved(t.Context(), csr.Name, 3*time.Second); err == nil {
		t.Fatal("approved in a Cluster that the selector leaves out")
	}
	label := func(value string) {
		object := &clusterv1.Cluster{}
		if err := theStage.Management.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster.Object), object); err != nil {
			t.Fatal(err)
		}
		object.Labels = map[string]string{"serve": value}
		if err := theStage.Management.Client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	label("yes")
	approved(t, csr)
	// A Cluster that loses the label is let go.
	label("no")
	time.Sleep(time.Second)
	csr = ask(t, "selector", bed.RequestSpec{DNS: []string{"selector"}, IPs: []netip.Addr{m.Address}})
	if err := cluster.WaitApproved(t.Context(), csr.Name, 3*time.Second); err == nil {
		t.Error("approved in a Cluster that no longer has the label")
	}
}

// checkLog: every line of a JSON log is JSON, and nothing secret or foreign is in it, at -v=4.
func checkLog(t *testing.T, path string) {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{canary, cluster.Credential.Secret, "X-Auth-Token", "PRIVATE KEY", theStage.Cloud.AuthURL()}
	decisions := 0
	for line := range strings.Lines(string(log)) {
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				t.Errorf("the log contains %q: %s", secret, line)
			}
		}
		if strings.HasPrefix(line, "$ ") {
			continue // the command line, which the bed writes
		}
		var entry struct {
			Msg, Reason, Node, CSR string
			Cluster                struct{ Name string }
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("no JSON: %s", line)
		}
		if entry.Msg == "Approved" && entry.Reason != "" && entry.Node != "" && entry.CSR != "" && entry.Cluster.Name != "" {
			decisions++
		}
	}
	if decisions == 0 {
		t.Error("no approval with the keys cluster, node, csr and reason in the log")
	}
}
