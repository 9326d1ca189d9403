package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	logsv1 "k8s.io/component-base/logs/api/v1"
)

func parse(t *testing.T, arguments ...string) (*options, error) {
	t.Helper()
	o := newOptions()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	// Logging can be applied once in a process, tests aside.
	if err := logsv1.ResetForTest(nil); err != nil {
		t.Fatal(err)
	}
	return o, o.validate(flags.Args())
}

// Everything that is wrong is said at once, each with the flag's name.
func TestAllFlagErrorsAtOnce(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := parse(t, "--namespace=A_B", "--cluster-selector==,=", "--node-domain=ok.example,.x", "--max-expiration=1m",
		"--openstack-ca-file="+empty, "-v=6", "--vmodule=request=9", "leftover")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"--namespace", "--cluster-selector", `--node-domain ".x"`, "--max-expiration", "--openstack-ca-file", "-v 6", "--vmodule", "leftover"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "ok.example") {
		t.Errorf("the error is about a good domain: %v", err)
	}
}

func TestFlags(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := parse(t, "--openstack-ca-file="+missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing CA file: %v", err)
	}
	if _, err := parse(t, "--max-expiration=9m59s"); err == nil {
		t.Error("a lifetime below Kubernetes' shortest was accepted")
	}
	o, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if !o.selector.Empty() || len(o.namespaces()) != 0 {
		t.Errorf("by default every Cluster is served, not %q in %q", o.selector, o.namespaces())
	}
}
