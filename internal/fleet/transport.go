package fleet

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// Bounds of what a workload cluster's API server may send. Real answers are far below them; a
// hostile one must not fill the approver's memory (A16).
const (
	maxListBody   = 32 << 20
	maxObjectBody = 2 << 20
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
	switch {
	case r.URL.Query().Get("watch") != "":
		response.Body = &boundedBody{ReadCloser: response.Body, most: maxObjectBody, lines: true}
	case strings.HasSuffix(r.URL.Path, "/certificatesigningrequests"):
		response.Body = &boundedBody{ReadCloser: response.Body, most: maxListBody}
	default:
		response.Body = &boundedBody{ReadCloser: response.Body, most: maxObjectBody}
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport, to close its idle connections.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

// errTooLarge is what reading more than the bound returns.
type errTooLarge struct{ most int64 }

func (e errTooLarge) Error() string { return fmt.Sprintf("the answer is larger than %d bytes", e.most) }

// boundedBody limits a whole body, or each line of it: a watch sends one event a line, for hours.
type boundedBody struct {
	io.ReadCloser
	most, read int64
	lines      bool
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.lines {
		if end := bytes.LastIndexByte(p[:n], '\n'); end >= 0 {
			b.read = int64(n - end - 1)
		}
	}
	if b.read > b.most {
		return 0, errTooLarge{b.most}
	}
	return n, err
}
