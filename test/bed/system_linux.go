package bed

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// prepare puts the command into a process group of its own, out of reach of the terminal's Ctrl-C:
// the bed ends its processes in order. The kernel kills it when the bed dies.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onStarterThread calls f on the one thread that starts all processes and never ends. Pdeathsig
// is sent when the parent *thread* ends, and Go's other threads may end at any time.
func onStarterThread(f func() error) error {
	done := make(chan error)
	starter() <- func() { done <- f() }
	return <-done
}

var starter = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})
