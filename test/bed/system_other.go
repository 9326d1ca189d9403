//go:build !linux

package bed

import (
	"os/exec"
	"syscall"
)

// prepare puts the command into a process group of its own, out of reach of the terminal's Ctrl-C:
// the bed ends its processes in order.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func onStarterThread(f func() error) error { return f() }
