package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// BinaryVariable names the environment variable that holds the path of a finished Kubernetes
// binary, as test/kubernetes/build.sh makes it. With it nothing is built.
const BinaryVariable = "CSR_APPROVER_TEST_KUBERNETES"

// assetsVariable is the variable of controller-runtime's envtest: a folder with etcd and
// kube-apiserver, which is all that a management cluster needs.
const assetsVariable = "KUBEBUILDER_ASSETS"

var parts = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubelet", "kubeadm", "cri"}

// Binary returns the path of the Kubernetes binary, and builds it when there is none. A build
// takes up to 20 minutes; its progress goes to stderr.
func Binary(ctx context.Context) (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", BinaryVariable, err)
		}
		return filepath.Abs(path)
	}
	dir, err := sourceDir()
	if err != nil {
		return "", err
	}
	script := filepath.Join(dir, "..", "kubernetes", "build.sh")
	var path bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", script)
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdout, cmd.Stderr = &path, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w (%s names a finished binary instead)", script, err, BinaryVariable)
	}
	return strings.TrimSpace(path.String()), nil
}

// linkParts makes a link for each part in the bed's bin folder.
func (b *Bed) linkParts(ctx context.Context) error {
	path, err := Binary(ctx)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Symlink(path, filepath.Join(b.bin, part)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// part returns the path of a part of Kubernetes.
func (b *Bed) part(ctx context.Context, name string) (string, error) {
	if err := b.built(ctx); err != nil {
		return "", err
	}
	return filepath.Join(b.bin, name), nil
}

// managementPart returns the path of etcd or kube-apiserver for a management cluster.
func (b *Bed) managementPart(ctx context.Context, name string) (string, error) {
	assets := os.Getenv(assetsVariable)
	if assets == "" {
		return b.part(ctx, name)
	}
	path := filepath.Join(assets, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s: %w", assetsVariable, err)
	}
	return path, nil
}

// sourceDir is the folder of this package in the source tree.
func sourceDir() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("the test bed needs its source tree: build without -trimpath")
	}
	return filepath.Dir(file), nil
}
