package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is a started program.
type process struct {
	name string // as in the log file's name
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it ended
	err  error         // how it ended, set before done is closed
	bed  *Bed
}

// start runs a program with its output appended to logs/<name>.log.
func (b *Bed) start(name, path string, args ...string) (*process, error) {
	p := &process{bed: b, name: name, log: filepath.Join(b.Logs(), name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	fmt.Fprintf(out, "$ %s %s\n", path, strings.Join(args, " "))
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Dir = b.tmp
	p.cmd.Env = withoutProxies(os.Environ())
	prepare(p.cmd)
	// Under the lock, so that Close either prevents the start or knows the process.
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return nil, errClosed
	}
	if err := onStarterThread(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	b.running[p] = true
	go func() {
		p.err = p.cmd.Wait()
		b.mu.Lock()
		delete(b.running, p)
		b.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// stop ends the process, with force if it does not end within the given time, and waits for its
// end. A nil process is none.
func (p *process) stop(grace time.Duration) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// ending describes how a process ended, which may have been without an error.
func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// waitReady is waitFor for a process: it also gives up when that ends, and its error shows the end
// of the log.
func (p *process) waitReady(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	err := waitFor(ctx, p.bed, limit, func(ctx context.Context) error {
		select {
		case <-p.done:
			return &finalError{fmt.Errorf("it ended: %s", ending(p.err))}
		default:
			return check(ctx)
		}
	})
	if err != nil {
		return p.failed(err)
	}
	return nil
}

// finalError ends waitFor.
type finalError struct{ error }

// waitFor calls check ten times a second until it returns nil or a finalError. It gives up when
// ctx or the bed ends, or after the given time; the error then holds the last answer of check.
func waitFor(ctx context.Context, b *Bed, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not there after %v", limit))
	defer cancel()
	last := errors.New("not asked yet")
	for {
		err := check(ctx)
		if final := (*finalError)(nil); err == nil || errors.As(err, &final) {
			return err
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-b.ctx.Done():
			return errClosed
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// failed names the process and shows the end of its log.
func (p *process) failed(err error) error {
	return fmt.Errorf("%s: %w\n%s ends with:\n%s", p.name, err, p.log, tail(p.log))
}

// tail returns the last 15 lines of a file, of its last 16 KiB.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		_, _ = f.Seek(max(0, info.Size()-16<<10), io.SeekStart)
	}
	data, _ := io.ReadAll(f)
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}

// tool runs a short command. Its error holds what the command wrote.
func tool(ctx context.Context, name string, args ...string) error {
	_, err := toolOutput(ctx, name, args...)
	return err
}

func toolOutput(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = withoutProxies(os.Environ())
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err,
			bytes.TrimSpace(append(stderr.Bytes(), out...)))
	}
	return string(out), nil
}

// withoutProxies drops the proxy variables: everything the bed talks to is on this machine.
func withoutProxies(environment []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		return strings.HasSuffix(name, "_PROXY")
	})
}
