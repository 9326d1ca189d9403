package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// promise is how soon after its creation an honest request is approved.
const promise = time.Second

// play is the demo's story.
type play struct {
	stage *stage.Stage
	out   io.Writer
	begin time.Time

	cluster  *stage.Cluster
	clock    *stage.Stopwatch
	approver *stage.Approver
}

func (p *play) say(format string, args ...any) {
	fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (p *play) perform(ctx context.Context) (err error) {
	if p.cluster, err = p.stage.AddCluster(ctx, bed.WorkloadSpec{Name: "kube-demo1"}); err != nil {
		return err
	}
	if p.clock, err = p.cluster.NewStopwatch(ctx); err != nil {
		return err
	}
	defer p.clock.Stop()
	kubelets := "real kubelets in network namespaces"
	if real, why := p.stage.Bed.RealKubelets(); !real {
		kubelets = "PLAYED kubelets, not real ones (" + why + ")"
	}
	p.say("A management cluster, a cloud, and workload cluster %s with %s", p.cluster.Name, kubelets)

	var machines []*stage.Machine
	for _, name := range []string{"cp-0", "worker-0", "worker-1"} {
		m, err := p.cluster.AddMachine(ctx, name, func(s *bed.MachineSpec) { s.ControlPlane = strings.HasPrefix(s.Name, "cp") })
		if err != nil {
			return err
		}
		machines = append(machines, m)
	}
	cp, worker0, worker1 := machines[0], machines[1], machines[2]
	for _, step := range []func() error{
		func() error { return p.before(ctx, cp, worker0) },
		func() error { return p.after(ctx, cp, worker0) },
		func() error { return p.newNode(ctx, worker1) },
		func() error { return p.floating(ctx, worker1) },
		func() error { return p.neighbour(ctx, worker1, worker0) },
		func() error { return p.impostor(ctx, worker0) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	p.say("All of it happened as it should")
	return nil
}

// before starts nodes while no approver runs.
func (p *play) before(ctx context.Context, machines ...*stage.Machine) error {
	for _, m := range machines {
		if _, err := p.cluster.StartNode(ctx, m); err != nil {
			return err
		}
	}
	for _, m := range machines {
		csr, err := p.cluster.Workload.WaitRequest(ctx, m.Server.Name)
		if err != nil {
			return err
		}
		p.say("Kubelet %s asks for its serving certificate (%s); nobody approves it", m.Server.Name, csr.Name)
	}
	const want = "tls: internal error"
	for _, m := range machines {
		_, err := p.cluster.Workload.KubeletHealthz(ctx, m.Server.Name)
		if err == nil {
			return fmt.Errorf("kubelet %s is reachable without a certificate", m.Server.Name)
		}
		if !strings.Contains(err.Error(), want) {
			return fmt.Errorf("reaching kubelet %s without a certificate: expected %q, got: %w", m.Server.Name, want, err)
		}
	}
	p.say("The API server cannot reach the kubelets: remote error: %s", want)
	return nil
}

// after starts the approver and sees everything become reachable.
func (p *play) after(ctx context.Context, machines ...*stage.Machine) (err error) {
	if p.approver, err = p.stage.StartApprover(ctx); err != nil {
		return err
	}
	p.say("The approver starts in the management cluster")
	for _, m := range machines {
		if err := p.reachable(ctx, m); err != nil {
			return err
		}
	}
	p.say("It approved both: every name and address is the server's own. The API server reaches the kubelets through verified TLS")
	return nil
}

func (p *play) reachable(ctx context.Context, m *stage.Machine) error {
	if _, err := p.stage.WaitEvent(ctx, m.Machine.Machine, string(reason.Approved), time.Minute); err != nil {
		return err
	}
	return p.cluster.Workload.WaitHealthz(ctx, m.Server.Name, time.Minute)
}
