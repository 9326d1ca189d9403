package bed

import (
	"context"
	"net"
	"strconv"
	"time"
)

// Program is a process of the bed that is not a part of Kubernetes.
type Program struct{ process *process }

// StartProgram starts a program with its output in logs/<name>.log. It ends with the bed at the latest.
func (b *Bed) StartProgram(name, path string, args ...string) (*Program, error) {
	p, err := b.start(name, path, args...)
	if err != nil {
		return nil, err
	}
	return &Program{process: p}, nil
}

// WaitReady polls check until it succeeds. It gives up after the limit and when the program ends; the
// error shows the end of its log.
func (p *Program) WaitReady(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	return p.process.waitReady(ctx, limit, check)
}

// Stop ends the program with SIGTERM, and with force after the grace. It returns how the program
// ended: nil for exit code 0.
func (p *Program) Stop(grace time.Duration) error {
	p.process.stop(grace)
	return p.process.err
}

// Log is the path of the program's output.
func (p *Program) Log() string { return p.process.log }

// FreeAddress returns a loopback address with a port that nobody listens on.
func FreeAddress() (string, error) {
	const host = "127.0.0.1"
	port, err := freePort(host)
	return net.JoinHostPort(host, strconv.Itoa(port)), err
}
