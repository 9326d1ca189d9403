package fleet

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Bounds of what a workload cluster's API server may send in one answer or one event of a watch.
// Real ones are far below them; a hostile one must not fill the approver's memory (A16).
const (
	maxListBody   = 8 << 20
	maxObjectBody = 2 << 20
	// maxObjects bounds the JSON objects in it: a request of two bytes, {}, takes 500 decoded.
	maxObjects = 100_000
)

// httpClient makes the client for one cluster: no redirects, because client-go would send the
// credential again to wherever they lead (A15), and bounded bodies. HTTP/2 pings, which end a watch
// whose connection was dropped silently, are client-go's default (30 s idle, 15 s time-out).
func httpClient(config *rest.Config) (*http.Client, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Transport = bounded{client.Transport}
	return client, nil
}

// bounded limits the bodies of answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	// client-go would wait as long as the server says, inside one call. How long to wait is decided
	// here (connection.run) and by the approver.
	response.Header.Del("Retry-After")
	// client-go would decode what the server calls it, but only JSON was asked for.
	response.Header.Set("Content-Type", runtime.ContentTypeJSON)
	m, watching := r.Context().Value(meterKey{}).(*meter)
	if !watching {
		m = &meter{}
	}
	most := int64(maxObjectBody)
	if !watching && strings.HasSuffix(r.URL.Path, "/certificatesigningrequests") {
		most = maxListBody
	}
	response.Body = &boundedBody{ReadCloser: response.Body, most: most, meter: m}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport, to close its idle connections.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

// errTooLarge is what reading more than the bound returns.
type errTooLarge struct{ most int64 }

func (e errTooLarge) Error() string {
	return fmt.Sprintf("the answer is larger than %d bytes or %d objects", e.most, maxObjects)
}

// meter counts what was read of an answer; of a watch, which sends for hours, what was read since its
// last event. Lines would not do: a hostile server can break one event into any number of them.
type meter struct{ bytes, objects, most atomic.Int64 }

// meterKey is the key of a watch's meter in its context.
type meterKey struct{}

// next begins to count anew.
func (m *meter) next() {
	m.bytes.Store(0)
	m.objects.Store(0)
}

// exceeded is nil or errTooLarge. client-go turns what reading a watch returns into text.
func (m *meter) exceeded() error {
	if most := m.most.Load(); most > 0 {
		return errTooLarge{most}
	}
	return nil
}

// boundedBody limits a body.
type boundedBody struct {
	io.ReadCloser
	most  int64
	meter *meter
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	objects := int64(bytes.Count(p[:n], []byte("{")))
	if b.meter.bytes.Add(int64(n)) > b.most || b.meter.objects.Add(objects) > maxObjects {
		b.meter.most.Store(b.most)
		return 0, errTooLarge{b.most}
	}
	return n, err
}
