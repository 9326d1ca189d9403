package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Stopwatch measures, from one watch of its own, how long after its creation each request was
// approved: Kubernetes' own timestamps are whole seconds.
type Stopwatch struct {
	mu       sync.Mutex
	created  map[string]time.Time
	approved map[string]time.Duration
	watch    watch.Interface
}

// NewStopwatch starts to measure a cluster's requests.
func (c *Cluster) NewStopwatch(ctx context.Context) (*Stopwatch, error) {
	w, err := c.Workload.Clientset.CertificatesV1().CertificateSigningRequests().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	s := &Stopwatch{created: map[string]time.Time{}, approved: map[string]time.Duration{}, watch: w}
	go func() {
		for event := range w.ResultChan() {
			if csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok {
				s.see(csr, time.Now())
			}
		}
	}()
	return s, nil
}

// Stop ends the measuring.
func (s *Stopwatch) Stop() { s.watch.Stop() }

func (s *Stopwatch) see(csr *certificatesv1.CertificateSigningRequest, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.created[csr.Name]; !known {
		s.created[csr.Name] = now
	}
	if _, known := s.approved[csr.Name]; !known && IsApproved(csr) {
		s.approved[csr.Name] = now.Sub(s.created[csr.Name])
	}
}

// Approval returns how long the request waited for its approval, and false when it still waits.
func (s *Stopwatch) Approval(name string) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.approved[name]
	return d, ok
}

// IsApproved tells whether a request has the condition Approved.
func IsApproved(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	})
}

// WaitApproved waits until the request is approved, and fails after the limit.
func (c *Cluster) WaitApproved(ctx context.Context, name string, limit time.Duration) error {
	return poll(ctx, limit, func() error {
		csr, err := c.Workload.Clientset.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case !IsApproved(csr):
			return fmt.Errorf("request %s is not approved: %v", name, csr.Status.Conditions)
		}
		return nil
	})
}

// WaitRequests waits until the node has made that many requests and returns the newest.
func (c *Cluster) WaitRequests(ctx context.Context, node string, count int, limit time.Duration) (newest *certificatesv1.CertificateSigningRequest, err error) {
	err = poll(ctx, limit, func() error {
		requests, err := c.Workload.Requests(ctx, node)
		if err != nil {
			return err
		}
		if len(requests) < count {
			return fmt.Errorf("node %s has made %d requests, expected %d", node, len(requests), count)
		}
		newest = &requests[len(requests)-1]
		return nil
	})
	return newest, err
}

// WaitEvent waits for an Event with the reason about an object of the management cluster, and
// returns the newest one's note.
func (s *Stage) WaitEvent(ctx context.Context, about client.Object, reason string, limit time.Duration) (note string, err error) {
	err = poll(ctx, limit, func() error {
		events, err := s.Events(ctx, about)
		if err != nil {
			return err
		}
		var seen []string
		for _, event := range slices.Backward(events) {
			if event.Reason == reason {
				note = event.Note
				return nil
			}
			seen = append(seen, event.Reason)
		}
		return fmt.Errorf("%s has no Event %s, but: %s", about.GetName(), reason, strings.Join(seen, ", "))
	})
	return note, err
}

// Events returns the Events about an object, the newest last.
func (s *Stage) Events(ctx context.Context, about client.Object) ([]eventsv1.Event, error) {
	list, err := s.Management.Clientset.EventsV1().Events(about.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.UID != about.GetUID() })
	slices.SortFunc(found, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return found, nil
}

func poll(ctx context.Context, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
