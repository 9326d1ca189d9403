package fleet

import (
	"cmp"
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

// pageSize is how many requests are asked for at a time.
const pageSize = 100

// onlyServing asks the API server for the signer's requests alone: a cluster may hold 50,000 others (E53).
var onlyServing = "spec.signerName=" + certificatesv1.KubeletServingSignerName

var (
	errEndedAtOnce = errors.New("the watch ended at once")
	errEndless     = errors.New("the list has too many pages")
	errExpired     = errors.New("its watch cannot go on from its list")
)

// feed fills a store with what one workload cluster says.
type feed struct {
	client certificatesclient.CertificateSigningRequestInterface
	store  *store
	limits limits
	// followed is called whenever a watch has lasted long enough to be one. A list alone does not
	// count: a cluster that cannot be watched would be reported lost and found in turns.
	followed func()
}

// follow lists a cluster's requests into the store and watches them until the context ends or
// something fails.
//
// It is a loop of our own and not a client-go Reflector, because a Reflector collects whole lists
// before the store sees an object, retries refused connections inside, with a delay that starts
// anew every two minutes, and logs what the API server said.
func (f feed) follow(ctx context.Context) error {
	listed := time.Now()
	version, err := f.list(ctx)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		start := time.Now()
		version, err = f.watch(ctx, version)
		expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
		switch {
		case expired && time.Since(listed) < f.limits.steady:
			// A list that is expired at once must not be asked for in a loop either.
			return errExpired
		case expired:
			// The server no longer has the changes since then: list again.
			listed = time.Now()
			if version, err = f.list(ctx); err != nil {
				return err
			}
		case err != nil:
			return err
		case time.Since(start) < f.limits.hasty && ctx.Err() == nil:
			return errEndedAtOnce
		}
	}
	return ctx.Err()
}

// list reads all pages and gives the store the stripped result. A page that is too large to read is
// asked for again one object at a time.
func (f feed) list(ctx context.Context) (version string, err error) {
	listed := newStore(func(string) {})
	options := metav1.ListOptions{FieldSelector: onlyServing, Limit: pageSize}
	for page := 0; page < f.limits.pages; page++ {
		got, err := f.page(ctx, options)
		if tooLarge := (errTooLarge{}); errors.As(err, &tooLarge) && options.Limit > 1 {
			options.Limit = 1
			continue
		}
		if err != nil {
			return "", err
		}
		for i := range got.Items {
			if p, ours := strip(&got.Items[i]); ours {
				listed.set(p)
			}
		}
		if got.Continue == "" {
			f.store.replace(listed)
			return got.ResourceVersion, nil
		}
		options.Continue = got.Continue
	}
	return "", errEndless
}

func (f feed) page(ctx context.Context, options metav1.ListOptions) (*certificatesv1.CertificateSigningRequestList, error) {
	ctx, cancel := context.WithTimeout(ctx, f.limits.answer)
	defer cancel()
	return f.client.List(ctx, options)
}

// watch feeds the store until the watch ends, and returns the version to go on from. A watch
// that ends in its own time is no error.
func (f feed) watch(ctx context.Context, version string) (string, error) {
	sent := &meter{}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, meterKey{}, sent))
	defer cancel()
	// Nothing else ends a watch that the server does not begin, or does not end.
	deadline := time.AfterFunc(f.limits.answer, cancel)
	defer deadline.Stop()
	lasting := f.limits.watch + rand.N(f.limits.watch)
	seconds := int64(lasting.Seconds())
	w, err := f.client.Watch(ctx, metav1.ListOptions{
		FieldSelector: onlyServing, ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		if !deadline.Stop() {
			err = context.DeadlineExceeded
		}
		return version, err
	}
	defer w.Stop()
	deadline.Reset(lasting + f.limits.answer)
	lasted := time.After(f.limits.hasty)
	for {
		select {
		case <-lasted:
			f.followed()
		case event, open := <-w.ResultChan():
			if !open || ctx.Err() != nil {
				return version, nil
			}
			if event.Type == watch.Error {
				return version, cmp.Or(sent.exceeded(), apierrors.FromObject(event.Object))
			}
			sent.next()
			if csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok {
				version = csr.ResourceVersion
				f.take(event.Type, csr)
			}
		}
	}
}

func (f feed) take(what watch.EventType, csr *certificatesv1.CertificateSigningRequest) {
	switch what {
	case watch.Added, watch.Modified:
		if p, ours := strip(csr); ours {
			f.store.set(p)
		}
	case watch.Deleted:
		f.store.remove(csr.Name)
	}
}
