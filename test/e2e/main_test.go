// Package e2e tests the approver as a process of its own, between a real management cluster, real
// workload clusters and the OpenStack simulator.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// Everything here is started once: the tests share it and keep to Machines of their own.
var (
	theStage *stage.Stage
	approver *stage.Approver
	// cluster has real kubelets where they can run.
	cluster *stage.Cluster
	// played has played kubelets, everywhere.
	played *stage.Cluster
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait for others nearly all their time.
	_ = flag.Set("test.parallel", "100")
	if testing.Short() {
		fmt.Println("skipped: the end-to-end tests need real control planes (go test without -short)")
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "end-to-end tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	defer stage.RemoveBinary()
	options := bed.Options{Dir: os.Getenv("CSR_APPROVER_TEST_DIR"), Log: func(line string) { fmt.Println("  ·", line) }}
	if theStage, err = stage.New(ctx, options); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, theStage.Close()) }()
	if real, why := theStage.Bed.RealKubelets(); !real {
		fmt.Println("PLAYED kubelets only, not real ones:", why)
	}
	var group errgroup.Group
	group.Go(func() (err error) {
		cluster, err = theStage.AddCluster(ctx, bed.WorkloadSpec{Name: "kube-one"})
		return err
	})
	group.Go(func() (err error) {
		played, err = theStage.AddCluster(ctx, bed.WorkloadSpec{Name: "kube-two", PlayedKubelets: true})
		return err
	})
	if err := group.Wait(); err != nil {
		return 1, err
	}
	if approver, err = theStage.StartApprover(ctx, "--logging-format=json", "-v=5"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// soon is how long a test waits for what should happen at once, on a busy machine.
const soon = 30 * time.Second

// others counts the tests that run at the same time, for the one that has to be the last.
var others sync.WaitGroup

// together has a test run at the same time as all others of its kind: they mostly wait.
func together(t *testing.T) {
	others.Add(1)
	t.Cleanup(others.Done)
	t.Parallel()
}
