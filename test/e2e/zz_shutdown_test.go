package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// The last test, because it waits for all others: it stops the approver, and starts another that serves labelled Clusters only.
func TestShutdownAndSelector(t *testing.T) {
	t.Parallel()
	others.Wait()
	if approved, err := approver.Decisions(t.Context(), string(reason.Approved)); err != nil || approved == 0 {
		t.Errorf("csr_approver_decisions_total for Approved: %d, %v", approved, err)
	}
	metrics, err := approver.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unsaid(t, "the metrics", metrics)
	if err := approver.Stop(10 * time.Second); err != nil {
		t.Errorf("after SIGTERM the approver ended with %v", err)
	}
	checkLog(t, approver.Log())
	checkEvents(t)

	// E50: nobody is there while twenty nodes ask.
	waiting := map[string]*certificatesv1.CertificateSigningRequest{}
	for i := range 20 {
		node := fmt.Sprintf("e50-%d", i)
		m := machine(t, node)
		waiting[node] = ask(t, node, bed.RequestSpec{DNS: []string{node}, IPs: []netip.Addr{m.Address}})
	}
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
	for _, csr := range waiting {
		approved(t, csr)
	}
	// A Cluster that loses the label is let go.
	label("no")
	time.Sleep(time.Second)
	csr = ask(t, "selector", bed.RequestSpec{DNS: []string{"selector"}, IPs: []netip.Addr{m.Address}})
	if err := cluster.WaitApproved(t.Context(), csr.Name, 3*time.Second); err == nil {
		t.Error("approved in a Cluster that no longer has the label")
	}
}

// checkEvents: nothing secret or foreign is in any Event.
func checkEvents(t *testing.T) {
	t.Helper()
	list, err := theStage.Management.Clientset.EventsV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) < 10 {
		t.Fatalf("%d Events, %v", len(list.Items), err)
	}
	for _, event := range list.Items {
		text, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		unsaid(t, "the Event", string(text))
	}
}

// checkLog: every line of a JSON log is JSON, and nothing secret or foreign is in it, at the highest verbosity.
func checkLog(t *testing.T, path string) {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	unsaid(t, "the log", string(log))
	decisions := 0
	for line := range strings.Lines(string(log)) {
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
