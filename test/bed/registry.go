package bed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Every bed has a folder /tmp/csr-bed-<id> that holds a file "lock". The bed keeps that file
// locked; the kernel drops the lock when the process dies, however it dies. A folder whose lock is
// free therefore belongs to a dead bed, and so does every network device with that id in its name.

const dirPrefix = "csr-bed-"

// register makes the bed's folder and removes dead beds.
func (b *Bed) register() error {
	reapDead()
	// The id has to fit into a network device's name, which has 15 characters at most.
	b.id = strconv.FormatInt(int64(os.Getpid()), 36) + "-" + strings.ToLower(rand.Text()[:3])
	b.tmp = filepath.Join(os.TempDir(), dirPrefix+b.id)
	if err := os.Mkdir(b.tmp, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(b.tmp, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	b.lock = lock
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// unregister removes the bed's network devices and its folder.
func (b *Bed) unregister() error {
	err := errors.Join(removeNetwork(b.id), os.RemoveAll(b.tmp))
	return errors.Join(err, b.lock.Close())
}

func reapDead() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range dirs {
		if lock := lockOfDead(dir); lock != nil {
			// Best effort: what cannot be removed has a name that no other bed will use.
			_ = removeNetwork(strings.TrimPrefix(filepath.Base(dir), dirPrefix))
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}

// lockOfDead takes the lock of a dead bed's folder, and returns nil for a living one's.
func lockOfDead(dir string) *os.File {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	// A bed that is just starting has made its file, but may not have locked it yet.
	info, err := lock.Stat()
	young := err != nil || time.Since(info.ModTime()) < 2*time.Second
	if young || syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = lock.Close()
		return nil
	}
	return lock
}

// removeNetwork deletes the network namespaces and devices with this bed id in their names.
func removeNetwork(id string) error {
	spaces, _ := filepath.Glob(filepath.Join(netnsDir, netnsName(id, "*")))
	devices, _ := filepath.Glob(filepath.Join("/sys/class/net", bridgeName(id)))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	for _, space := range spaces {
		// The node's network device goes with its namespace.
		errs = append(errs, tool(ctx, "ip", "netns", "delete", filepath.Base(space)))
	}
	for _, device := range devices {
		errs = append(errs, tool(ctx, "ip", "link", "delete", filepath.Base(device)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the network of bed %s: %w", id, err)
	}
	return nil
}
