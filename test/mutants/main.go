// Mutants breaks the rules of the product one by one and expects the tests to notice.
//
//	go run ./test/mutants [NAME...]       a NAME may be a pattern: "verdict-*"
//
// Each NAME.patch beside this file is a unified diff that breaks one rule in a plausible way. Lines
// before the diff say what it breaks and which test must fail, as `go test -run` takes it:
//
//	test: ./internal/request ^TestPEM$/^E21_headers$
//
// The patches are applied to copies of the working tree. A mutant passes when it applies and builds
// and the named test itself fails; without it, that test must pass.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// mutant is one patch file.
type mutant struct {
	name, patch string
	// pkg and test name the test that must fail.
	pkg, test string
}

// result is what became of a mutant; an empty problem is as it should be.
type result struct {
	mutant
	problem string
	took    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// run returns how many mutants did not do what they should.
func run(ctx context.Context, only []string) (int, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return 0, fmt.Errorf("not in a git working tree: %w", err)
	}
	root := strings.TrimSpace(string(out))
	mutants, err := load(filepath.Join(root, "test", "mutants"), only)
	if err != nil {
		return 0, err
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()

	// Two trees at most: each builds with all processors, the second fills the gaps of the first.
	trees := make([]tree, min(2, runtime.NumCPU(), len(mutants)))
	for i := range trees {
		if trees[i], err = copyTree(ctx, root, filepath.Join(scratch, fmt.Sprint(i))); err != nil {
			return 0, err
		}
	}
	if err := trees[0].checkUnmutated(ctx, mutants); err != nil {
		return 0, err
	}
	return report(work(ctx, trees, mutants), len(mutants)), ctx.Err()
}

// work hands the mutants to the trees; results come in any order.
func work(ctx context.Context, trees []tree, mutants []mutant) <-chan result {
	queue, results := make(chan mutant), make(chan result)
	var group sync.WaitGroup
	for _, t := range trees {
		group.Go(func() {
			for m := range queue {
				start := time.Now()
				problem := t.try(ctx, m)
				results <- result{m, problem, time.Since(start)}
			}
		})
	}
	go func() {
		for _, m := range mutants {
			queue <- m
		}
		close(queue)
		group.Wait()
		close(results)
	}()
	return results
}

// report prints one line for each mutant and returns how many failed.
func report(results <-chan result, count int) int {
	failed := 0
	for r := range results {
		if r.problem == "" {
			fmt.Printf("ok    %-40s %4.1fs\n", r.name, r.took.Seconds())
			continue
		}
		failed++
		fmt.Printf("FAIL  %-40s %4.1fs  %s\n", r.name, r.took.Seconds(), r.problem)
	}
	fmt.Printf("%d passed, %d failed\n", count-failed, failed)
	return failed
}

// load reads the patch files of a directory, or only those named.
func load(dir string, only []string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		wanted := len(only) == 0 || slices.ContainsFunc(only, func(pattern string) bool {
			match, _ := filepath.Match(pattern, name)
			return match
		})
		if !wanted {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m := mutant{name: name, patch: path}
		for line := range strings.Lines(string(content)) {
			if rest, ok := strings.CutPrefix(line, "test: "); ok {
				m.pkg, m.test, _ = strings.Cut(strings.TrimSpace(rest), " ")
				break
			}
		}
		if m.test == "" {
			return nil, fmt.Errorf("%s names no test (a line \"test: PACKAGE TEST\")", path)
		}
		mutants = append(mutants, m)
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no mutant is called %q", only)
	}
	// Mutants of one package stand together, so that what they share is built once.
	slices.SortStableFunc(mutants, func(a, b mutant) int { return cmp.Compare(a.pkg, b.pkg) })
	return mutants, nil
}
