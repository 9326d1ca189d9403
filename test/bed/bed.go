package bed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

var errClosed = errors.New("the bed is closed")

// Options are the settings of a bed. The zero value is usable.
type Options struct {
	// Dir is where the processes' logs go, in a folder "logs", kept after Close. Empty: they go
	// into the bed's own temporary folder and are removed with it.
	Dir string
	// Log takes one line for every step that may be worth showing to a waiting person. May be
	// nil. It is called from several goroutines.
	Log func(string)
	// PlayedKubelets makes every node a played one, even where real kubelets could run.
	PlayedKubelets bool
}

// Bed owns every process, file and network device that it started.
type Bed struct {
	options Options
	id      string // in the names of network devices and of the temporary folder
	tmp     string
	bin     string // holds a symbolic link for each part of the Kubernetes binary
	lock    *os.File

	// ctx ends when Close begins. What runs inside this process (played kubelets, the egress
	// proxy) lives as long.
	ctx    context.Context
	cancel context.CancelFunc

	built  func(context.Context) error // provides the links in bin, once
	subnet netip.Prefix
	bridge func(context.Context) error // makes the bridge, once

	mu        sync.Mutex
	last      netip.Addr // the address handed out last
	devices   int        // numbers the nodes' network devices
	stops     []func()   // one per cluster
	running   map[*process]bool
	closeOnce sync.Once
	closeErr  error
}

// New prepares a bed and removes what dead beds left behind. Nothing is started or built yet.
// The bed is closed when ctx ends; the caller calls Close all the same, to wait for the end.
func New(ctx context.Context, options Options) (*Bed, error) {
	if options.Log == nil {
		options.Log = func(string) {}
	}
	b := &Bed{options: options, running: map[*process]bool{}}
	if err := b.register(); err != nil {
		return nil, err
	}
	b.bin = filepath.Join(b.tmp, "bin")
	if options.Dir == "" {
		b.options.Dir = b.tmp
	}
	subnet, err := freeSubnet(ctx)
	for _, dir := range []string{b.bin, b.Logs()} {
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
	}
	if err != nil {
		return nil, errors.Join(err, b.unregister())
	}
	b.subnet = subnet
	b.last = b.gateway()
	b.built = onceSuccess(b.linkParts)
	b.bridge = onceSuccess(b.makeBridge)
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { _ = b.Close() })
	return b, nil
}

// Close ends every process and removes all files, network namespaces and devices of the bed. It
// may be called more than once, from anywhere; every call returns when all is done.
func (b *Bed) Close() error {
	b.closeOnce.Do(func() {
		b.cancel()
		b.mu.Lock()
		stops := slices.Clone(b.stops)
		b.mu.Unlock()
		var wg sync.WaitGroup
		for _, stop := range stops {
			wg.Go(stop)
		}
		wg.Wait()
		// What was just being started when the clusters were stopped.
		b.mu.Lock()
		late := slices.Collect(maps.Keys(b.running))
		b.mu.Unlock()
		for _, p := range late {
			p.stop(time.Second)
		}
		b.closeErr = b.unregister()
	})
	return b.closeErr
}

// RealKubelets says whether the nodes of this bed's clusters are real kubelets, and if not, why.
func (b *Bed) RealKubelets() (bool, string) {
	if b.options.PlayedKubelets {
		return false, "played kubelets were asked for"
	}
	return RealKubelets()
}

// Subnet is the private network that the nodes' addresses are taken from.
func (b *Bed) Subnet() netip.Prefix { return b.subnet }

// NewAddress returns an address of the subnet that no earlier call returned. It panics when the
// subnet's 4,093 addresses are used up.
func (b *Bed) NewAddress() netip.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = b.last.Next()
	if !b.subnet.Contains(b.last.Next()) {
		panic("bed: no address left in " + b.subnet.String())
	}
	return b.last
}

// gateway is the bridge's own address, the first of the subnet.
func (b *Bed) gateway() netip.Addr { return b.subnet.Addr().Next() }

// Logs is the folder of the processes' logs: CLUSTER-PART.log and CLUSTER-NODE-PART.log.
func (b *Bed) Logs() string { return filepath.Join(b.options.Dir, "logs") }

func (b *Bed) logf(format string, args ...any) { b.options.Log(fmt.Sprintf(format, args...)) }

// onClose registers what ends a cluster, before anything of it is started.
func (b *Bed) onClose(stop func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return errClosed
	}
	b.stops = append(b.stops, stop)
	return nil
}

// onceSuccess wraps f so that it is not called again once it succeeded. Calls do not overlap.
func onceSuccess(f func(context.Context) error) func(context.Context) error {
	var mu sync.Mutex
	done := false
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return nil
		}
		err := f(ctx)
		done = err == nil
		return err
	}
}
