package openstack

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// maxBody and maxHeader bound one answer: a server is a few KiB, a large catalog some hundred.
	maxBody   = 1 << 20
	maxHeader = 64 << 10
	// callTimeout bounds one call, body included; the context may end it earlier.
	callTimeout = 15 * time.Second
)

var (
	errInsecure = errors.New("a URL that is not https")
	errTooLarge = errors.New("the answer is too large")
	errRedirect = errors.New("redirects are not followed")
)

// httpClient makes the client for one credential. A cloud may be a tenant's own invention, so no
// redirect is followed, nothing but https is spoken, whatever the catalog says, and answers are
// bounded (A15, A17). The operator's HTTPS_PROXY applies. Only the operator can allow plain http, and
// only then can a credential ask for TLS that is not verified.
func httpClient(roots *x509.CertPool, plain, unverified bool) http.Client {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: unverified}, //nolint:gosec // --allow-insecure-openstack
		TLSHandshakeTimeout:   callTimeout,
		ResponseHeaderTimeout: callTimeout,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   2,
		ForceAttemptHTTP2:     true,

		MaxResponseHeaderBytes: maxHeader,
	}
	return http.Client{
		Transport:     guarded{transport, plain},
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
}

type guarded struct {
	transport *http.Transport
	plain     bool
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !g.plain {
		return nil, errInsecure
	}
	response, err := g.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: maxBody}
	return response, nil
}

// boundedBody fails, rather than ends, after the bound: half an answer must not look like a whole.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
