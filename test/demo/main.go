// Command demo shows the product's main job on real parts: real kubelets ask for their serving
// certificates, the approver checks the requests against OpenStack and approves them, and a request
// for another node's address stays pending with the reason as an Event on its Machine.
//
// It exits with 0 only if all of it happened, and removes everything that it started.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// limit is how long the whole demo may take once Kubernetes is built.
const limit = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Stderr)
	interrupted := ctx.Err() != nil
	stop()
	if err != nil {
		if interrupted {
			err = errors.New("interrupted; everything that was started is stopped and removed")
		}
		fmt.Fprintln(os.Stderr, "\nThe demo failed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, story, progress io.Writer) (err error) {
	// The build may take a quarter of an hour; it is not part of the limit.
	if _, err := bed.Binary(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := stage.New(ctx, bed.Options{Log: func(line string) { fmt.Fprintln(progress, "  ·", line) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	defer stage.RemoveBinary()
	return (&play{stage: s, out: story, begin: time.Now()}).perform(ctx)
}
