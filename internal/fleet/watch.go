package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
)

const (
	pageSize    = 100
	pageTimeout = 30 * time.Second
	// minWatch to 2*minWatch is how long a watch is asked to last; the server's default is the same.
	minWatch = 5 * time.Minute
	// hasty is how long a watch must last at least to be taken up again at once. A server that ends
	// each watch right away must not be asked in a loop.
	hasty = time.Second
)

// onlyServing asks the API server for the signer's requests alone: a cluster may hold 50,000 others (E53).
var onlyServing = "spec.signerName=" + certificatesv1.KubeletServingSignerName

var (
	errEndedAtOnce = errors.New("the watch ended at once")
	errEndless     = errors.New("the list has too many pages")
)

// follow lists a cluster's requests into the store and watches them until the context ends or
// something fails. It calls listed after the list.
//
// It is a loop of our own and not a client-go Reflector, because a Reflector collects whole lists
// before the store sees an object, retries refused connections inside, with a delay that starts
// anew every two minutes, and logs what the API server said.
func follow(ctx context.Context, client certificatesclient.CertificateSigningRequestInterface, s *store, listed func()) error {
	version, err := list(ctx, client, s)
	if err != nil {
		return err
	}
	listed()
	for ctx.Err() == nil {
		start := time.Now()
		version, err = watchFrom(ctx, client, version, s)
		switch {
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			// The server no longer has the changes since then: list again.
			if version, err = list(ctx, client, s); err != nil {
				return err
			}
		case err != nil:
			return err
		case time.Since(start) < hasty && ctx.Err() == nil:
			return errEndedAtOnce
		}
	}
	return ctx.Err()
}

// list reads all pages and gives the store the stripped result. A page that is too large to read is
// asked for again one object at a time.
func list(ctx context.Context, client certificatesclient.CertificateSigningRequestInterface, s *store) (version string, err error) {
	var all []Pending
	options := metav1.ListOptions{FieldSelector: onlyServing, Limit: pageSize}
	for page := 0; page < maxKept; page++ {
		got, err := listPage(ctx, client, options)
		if tooLarge := (errTooLarge{}); errors.As(err, &tooLarge) && options.Limit > 1 {
			options.Limit = 1
			continue
		}
		if err != nil {
			return "", err
		}
		for i := range got.Items {
			if p, ours := strip(&got.Items[i]); ours && len(all) < maxKept {
				all = append(all, p)
			}
		}
		if got.Continue == "" {
			s.replace(all)
			return got.ResourceVersion, nil
		}
		options.Continue = got.Continue
	}
	return "", errEndless
}

func listPage(ctx context.Context, client certificatesclient.CertificateSigningRequestInterface, options metav1.ListOptions) (*certificatesv1.CertificateSigningRequestList, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return client.List(ctx, options)
}

// watchFrom feeds the store until the watch ends, and returns the version to go on from. A watch
// that ends in its own time is no error.
func watchFrom(ctx context.Context, client certificatesclient.CertificateSigningRequestInterface, version string, s *store) (string, error) {
	seconds := int64((minWatch + rand.N(minWatch)).Seconds())
	w, err := client.Watch(ctx, metav1.ListOptions{
		FieldSelector: onlyServing, ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		return version, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return version, apierrors.FromObject(event.Object)
		}
		csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok {
			continue
		}
		version = csr.ResourceVersion
		switch event.Type {
		case watch.Added, watch.Modified:
			if p, ours := strip(csr); ours {
				s.set(p)
			}
		case watch.Deleted:
			s.remove(csr.Name)
		}
	}
	return version, nil
}
