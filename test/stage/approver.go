package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
)

// Approver is the real program in a process of its own.
type Approver struct {
	*bed.Program
	// MetricsURL serves the approver's metrics.
	MetricsURL string
}

// binary is built once for all stages of a process.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "csr-approver-bin-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "cluster-api-csr-approver")
	build := exec.Command("go", "build", "-o", path, "github.com/cluster-api-csr-approver/cluster-api-csr-approver/cmd/cluster-api-csr-approver")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the approver: %w\n%s", err, out)
	}
	return path, nil
})

// RemoveBinary removes what was built for StartApprover.
func RemoveBinary() {
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
}

// StartApprover starts the approver as the management cluster's administrator and returns when it
// serves its metrics.
func (s *Stage) StartApprover(ctx context.Context, args ...string) (*Approver, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(s.Bed.Logs(), "..", "approver.kubeconfig")
	if err := os.WriteFile(kubeconfig, s.Management.Kubeconfig, 0o600); err != nil {
		return nil, err
	}
	address, err := bed.FreeAddress()
	if err != nil {
		return nil, err
	}
	a := &Approver{MetricsURL: "http://" + address + "/metrics"}
	a.Program, err = s.Bed.StartProgram("approver", path, append([]string{
		"--kubeconfig=" + kubeconfig, "--diagnostics-address=" + address, "--insecure-diagnostics",
	}, args...)...)
	if err != nil {
		return nil, err
	}
	return a, a.WaitReady(ctx, 30*time.Second, func(ctx context.Context) error {
		_, err := a.Metrics(ctx)
		return err
	})
}

// Metrics returns the approver's metrics as text.
func (a *Approver) Metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.MetricsURL, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// Decisions returns how often csr_approver_decisions_total counted a reason.
func (a *Approver) Decisions(ctx context.Context, reason string) (int, error) {
	text, err := a.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		var n int
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok &&
			strings.HasPrefix(name, "csr_approver_decisions_total{") && strings.Contains(name, `reason="`+reason+`"`) {
			if _, err := fmt.Sscan(value, &n); err == nil {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("no csr_approver_decisions_total for reason %s", reason)
}

// WaitLog waits until the approver, which must run with --logging-format=json, has logged a reason
// for a node of a cluster; an empty node stands for the cluster itself.
func (a *Approver) WaitLog(ctx context.Context, cluster, node, reason string, limit time.Duration) error {
	return poll(ctx, limit, func() error {
		log, err := os.ReadFile(a.Log())
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(log)) {
			var entry struct {
				Reason, Node string
				Cluster      struct{ Name string }
			}
			// The log also holds text that is not JSON, the command line for one.
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Reason == reason && entry.Node == node && entry.Cluster.Name == cluster {
				return nil
			}
		}
		return fmt.Errorf("the approver's log has no reason %s for cluster %s, node %q", reason, cluster, node)
	})
}
