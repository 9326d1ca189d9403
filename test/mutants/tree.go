package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// tree is a copy of the working tree, the only thing that is ever changed.
type tree string

// copyTree copies what git tracks or would track, as it is now, committed or not.
func copyTree(ctx context.Context, root, to string) (tree, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, but not yet in git
		}
		if err != nil {
			return "", err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return "", err
		}
	}
	return tree(to), nil
}

// try returns what is wrong with a mutant.
func (t tree) try(ctx context.Context, m mutant) (problem string) {
	if out, err := t.git(ctx, "apply", m.patch); err != nil {
		return "does not apply: " + firstLine(out)
	}
	defer func() {
		if out, err := t.git(ctx, "apply", "--reverse", m.patch); err != nil && problem == "" {
			problem = "cannot be taken back: " + firstLine(out)
		}
	}()
	events := t.test(ctx, m.pkg, m.test)
	switch failed, passed := events.count(m.test); {
	case failed > 0:
		return ""
	// A compile error is no proof that a test works, and neither is another test that fails first.
	case events.build != "":
		return "does not build: " + events.build
	case passed > 0:
		return "survived: " + m.test + " passes"
	default:
		return "the test did not end: " + m.test
	}
}

// checkUnmutated makes sure that the named tests exist and pass without any mutant.
func (t tree) checkUnmutated(ctx context.Context, mutants []mutant) error {
	packages := map[string]*testRun{}
	for _, m := range mutants {
		events, ok := packages[m.pkg]
		if !ok {
			events = t.test(ctx, m.pkg, "^Test")
			packages[m.pkg] = events
		}
		failed, passed := events.count(m.test)
		if failed > 0 {
			// All tests of a package at once load the machine; alone it must pass.
			failed, passed = t.test(ctx, m.pkg, m.test).count(m.test)
		}
		switch {
		case events.build != "":
			return fmt.Errorf("%s does not build: %s", m.pkg, events.build)
		case failed > 0:
			return fmt.Errorf("%s: %s fails without the mutant", m.name, m.test)
		case passed == 0:
			return fmt.Errorf("%s: there is no test %s in %s", m.name, m.test, m.pkg)
		}
	}
	return nil
}

// git runs in the tree, and takes no repository above it for the tree's own.
func (t tree) git(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = string(t)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(string(t)))
	return cmd.CombinedOutput()
}

// testRun is how the tests of one run ended.
type testRun struct {
	ended map[string]string // "pass" or "fail" by the full name of the test
	build string            // the first error of the compiler
}

func (t tree) test(ctx context.Context, pkg, pattern string) *testRun {
	// Most of the time goes into linking: without debug information it takes half as long.
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-ldflags=-s -w", "-count=1", "-timeout=60s", "-run="+pattern, pkg)
	cmd.Dir = string(t)
	// The exit status says less than the events: it is the same for a failed test and a failed build.
	out, _ := cmd.Output()
	run := &testRun{ended: map[string]string{}}
	for line := range bytes.Lines(out) {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		switch event.Action {
		case "pass", "fail":
			if event.Test != "" {
				run.ended[event.Test] = event.Action
			}
		case "build-output":
			// The first line only names the package.
			if run.build == "" && !strings.HasPrefix(event.Output, "#") {
				run.build = firstLine([]byte(event.Output))
			}
		}
	}
	return run
}

// count tells how many tests that a pattern names, not their parents, failed and passed.
func (r *testRun) count(pattern string) (failed, passed int) {
	want := strings.Split(pattern, "/")
	for name, action := range r.ended {
		parts := strings.Split(name, "/")
		if len(parts) != len(want) {
			continue
		}
		matches := true
		for i := range want {
			ok, err := regexp.MatchString(want[i], parts[i])
			matches = matches && ok && err == nil
		}
		switch {
		case matches && action == "fail":
			failed++
		case matches:
			passed++
		}
	}
	return failed, passed
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
