// Package cri is a container runtime that runs nothing: the fake of k8s.io/cri-client behind a
// gRPC server of its own, so that single calls can be replaced here where a test needs more than
// the fake gives (log files, node statistics).
package cri

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
)

// Runtime answers the kubelet. Methods that it does not define are the fake's.
type Runtime struct {
	*fake.RemoteRuntime
}

// New returns a runtime whose status is ready: the kubelet on it becomes Ready.
func New() *Runtime {
	r := &Runtime{RemoteRuntime: fake.NewFakeRemoteRuntime()}
	r.RuntimeService.FakeStatus = &runtimeapi.RuntimeStatus{
		Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true},
			{Type: runtimeapi.NetworkReady, Status: true},
		},
	}
	return r
}

// Serve answers on the listener until the context ends.
func (r *Runtime) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	runtimeapi.RegisterImageServiceServer(server, r)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	return server.Serve(l)
}

// Main is the program: cri --listen /path/to/socket. It ends on SIGTERM and SIGINT.
func Main(args []string) error {
	flags := flag.NewFlagSet("cri", flag.ContinueOnError)
	socket := flags.String("listen", "", "path of the Unix socket to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *socket == "" {
		return errors.New("--listen is required: the path of the Unix socket to listen on")
	}
	l, err := net.Listen("unix", *socket)
	if err != nil {
		return fmt.Errorf("listening for the kubelet: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return New().Serve(ctx, l)
}
