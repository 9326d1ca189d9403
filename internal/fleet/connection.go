package fleet

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// connection follows one workload cluster.
type connection struct {
	cluster client.ObjectKey
	uid     types.UID
	secrets client.Reader
	agent   string
	log     logr.Logger
	// report takes what keeps the cluster from being followed, and nil when it is followed again.
	report func(error)
	store  *store
	limits limits
	stop   context.CancelFunc

	// current is nil while there is no usable kubeconfig.
	current atomic.Pointer[session]
}

// session is what one content of the kubeconfig Secret leads to.
type session struct {
	secretVersion string
	http          *http.Client
	requests      certificatesclient.CertificateSigningRequestInterface
	// renew ends the following, so that the kubeconfig is read again.
	renew context.CancelFunc
}

// run follows the cluster until the context ends. The kubeconfig is read on each connect, so after
// every failure, a rejected credential and a TLS failure among them, and hourly.
func (c *connection) run(ctx context.Context) {
	defer c.close()
	backoff := c.limits.minBackoff
	for ctx.Err() == nil {
		start := time.Now()
		followed, err := c.once(ctx)
		// A cluster that can be listed but not watched must not be listed every second.
		if followed && time.Since(start) > c.limits.steady {
			backoff = c.limits.minBackoff
		}
		if ctx.Err() != nil || err == nil && time.Since(start) > c.limits.steady {
			continue
		}
		if err != nil {
			c.report(err)
		}
		// A server that rejects and accepts a credential in turns must not be listed in a loop.
		select {
		case <-ctx.Done():
		case <-time.After(jitter(backoff)):
		}
		backoff = min(2*backoff, c.limits.maxBackoff)
	}
}

// once reads the kubeconfig and follows the cluster. An error of nil means: read it again now.
func (c *connection) once(ctx context.Context) (followed bool, err error) {
	s, err := c.connect(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(quiet(ctx), c.limits.reread)
	defer cancel()
	s.renew = cancel
	c.current.Store(s)
	err = feed{client: s.requests, store: c.store, limits: c.limits, followed: func() {
		if !followed {
			c.report(nil)
		}
		followed = true
	}}.follow(ctx)
	if ctx.Err() != nil {
		return followed, nil
	}
	c.log.V(4).Info("The cluster's requests are no longer followed", "why", unavailable(err).Detail)
	return followed, unavailable(err)
}

// connect returns the session of the kubeconfig Secret's content: the present one when it has not
// changed.
func (c *connection) connect(ctx context.Context) (*session, error) {
	secret, err := c.kubeconfig(ctx)
	if err != nil {
		if reason.Of(err, "").Reason == reason.KubeconfigMissing {
			c.close()
		}
		return nil, err
	}
	old := c.current.Load()
	if old != nil && old.secretVersion == secret.ResourceVersion {
		return &session{secretVersion: old.secretVersion, http: old.http, requests: old.requests}, nil
	}
	config, err := Harden(secret.Data["value"])
	if err != nil {
		c.close()
		return nil, err
	}
	config.UserAgent = c.agent
	// The default is protobuf, in which the objects of an answer cannot be counted (bounded).
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// The approver's own queue paces requests; a second limit would only hide which one waits.
	config.QPS = -1
	httpClient, err := httpClient(config)
	if err != nil {
		c.close()
		return nil, reason.New(reason.KubeconfigInvalid, "its certificates cannot be used")
	}
	certificates, err := certificatesclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		c.close()
		return nil, reason.New(reason.KubeconfigInvalid, "its server cannot be used")
	}
	c.close()
	return &session{secretVersion: secret.ResourceVersion, http: httpClient, requests: certificates.CertificateSigningRequests()}, nil
}

func (c *connection) kubeconfig(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	name := client.ObjectKey{Namespace: c.cluster.Namespace, Name: c.cluster.Name + "-kubeconfig"}
	err := c.secrets.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, reason.New(reason.KubeconfigMissing, "Secret %s does not exist", name.Name)
	case err != nil:
		return nil, reason.New(reason.ManagementUnavailable, "reading Secret %s: %s", name.Name, cmp.Or(string(apierrors.ReasonForError(err)), "no answer"))
	case len(secret.Data["value"]) == 0:
		return nil, reason.New(reason.KubeconfigMissing, "Secret %s has no key value", name.Name)
	}
	return secret, nil
}

// close drops the session and its idle connections.
func (c *connection) close() {
	if s := c.current.Swap(nil); s != nil {
		utilnet.CloseIdleConnectionsFor(s.http.Transport)
	}
}

// use calls the cluster, and has the kubeconfig read again when one of the two does not accept the
// other's credential.
func (c *connection) use(ctx context.Context, call func(context.Context, certificatesclient.CertificateSigningRequestInterface) error) error {
	s := c.current.Load()
	if s == nil {
		return reason.New(reason.ClusterUnavailable, "there is no connection to it now")
	}
	err := call(quiet(ctx), s.requests)
	if apierrors.IsUnauthorized(err) || untrusted(err) {
		s.renew()
	}
	return err
}

// quiet keeps client-go from logging what it gets: each Warning header as it stands, and errors in
// which an HTTP/2 server can put words.
func quiet(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.Discard())
}

// jitter spreads retries over ±20 %, so that a thousand clusters that failed together do not come
// back together.
func jitter(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5)
}
