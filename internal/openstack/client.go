package openstack

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

const (
	// maxClients bounds the cache. A credential that falls out costs one more token.
	maxClients = 10_000
	// renewBefore a token expires its session is made anew, so that no call runs into the expiry.
	renewBefore = 2 * time.Minute
)

// session is an authenticated view of one project in one region.
type session struct {
	compute *gophercloud.ServiceClient
	network *gophercloud.ServiceClient
	// project is the token's. A server of another project is not this cluster's (A22).
	project string
	region  string
	// expires is when the first token does. The catalog is read again then: endpoints move.
	expires time.Time
	// rejected: the cloud has stopped to accept the credential.
	rejected atomic.Bool
}

// sessionKey is where a session comes from. The server asked for is no part of it.
type sessionKey struct {
	secret        types.UID
	cloud, region string
}

// clientCache keeps sessions: tokens and endpoints, never an answer about a machine.
type clientCache struct {
	options Options
	roots   *roots
	entries *lru.Cache
	mu      sync.Mutex
}

// entry is the cached session of a Secret's present content. Its lock is a channel, so that waiting
// for another's authentication ends with the context.
type entry struct {
	lock    chan struct{}
	session *session
	// version is the Secret's resourceVersion: the session of other content is never used (A21).
	version string
}

func newClientCache(options Options) (*clientCache, error) {
	roots, err := newRoots(options.CA)
	if err != nil {
		return nil, err
	}
	return &clientCache{options: options, roots: roots, entries: lru.New(maxClients)}, nil
}

// get returns the session for a Secret's content, authenticating if there is none yet.
func (c *clientCache) get(ctx context.Context, secret *corev1.Secret, ref identityRef) (*session, error) {
	e := c.entry(sessionKey{secret: secret.UID, cloud: ref.cloud, region: ref.region})
	select {
	case e.lock <- struct{}{}:
		defer func() { <-e.lock }()
	case <-ctx.Done():
		return nil, problem(callToken, ctx.Err())
	}
	if e.version != secret.ResourceVersion {
		e.session, e.version = nil, secret.ResourceVersion
	}
	if e.session != nil && e.session.good(renewBefore) {
		return e.session, nil
	}
	s, err := c.authenticate(ctx, secret, ref)
	switch {
	case err == nil:
		e.session = s
	case e.session != nil && e.session.good(0) && reason.Of(err, "").Reason == reason.CloudUnavailable:
		// Keystone does not answer now, but has given a token that is still good.
	default:
		e.session = nil
		return nil, err
	}
	return e.session, nil
}

// good tells whether the session's token is accepted for at least that long.
func (s *session) good(margin time.Duration) bool {
	return !s.rejected.Load() && time.Until(s.expires) > margin
}

// rejected marks a session whose credential the cloud no longer accepts, so that the next verdict
// begins with a new one.
func (c *clientCache) rejected(s *session, err error) {
	if reason.Of(err, "").Reason == reason.CredentialRejected {
		s.rejected.Store(true)
	}
}

func (c *clientCache) entry(key sessionKey) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.entries.Get(key); ok {
		return found.(*entry)
	}
	e := &entry{lock: make(chan struct{}, 1)}
	c.entries.Add(key, e)
	return e
}

func (c *clientCache) authenticate(ctx context.Context, secret *corev1.Secret, ref identityRef) (*session, error) {
	data, ok := secret.Data[keyClouds]
	if !ok {
		return nil, reason.New(reason.CredentialMissing, "Secret %s has no key %s", secret.Name, keyClouds)
	}
	credential, err := parseCredential(data, ref.cloud, ref.region, c.options.AllowInsecure)
	if err != nil {
		return nil, err
	}
	pool, err := c.roots.of(secret)
	if err != nil {
		return nil, err
	}
	provider, err := openstack.NewClient(credential.auth.IdentityEndpoint)
	if err != nil {
		return nil, invalid("auth_url cannot be used")
	}
	provider.HTTPClient = httpClient(pool, c.options.AllowInsecure, credential.unverified)
	provider.UserAgent.Prepend(c.options.UserAgent)
	// Tokens are asked for without a token, by a client that cannot renew one.
	keystone := &gophercloud.ProviderClient{
		IdentityBase: provider.IdentityBase, HTTPClient: provider.HTTPClient, UserAgent: provider.UserAgent,
	}
	granted, err := newToken(ctx, keystone, credential.auth)
	if err != nil {
		return nil, err
	}
	if err := provider.SetTokenAndAuthResult(granted.token); err != nil {
		return nil, problem(callToken, err)
	}
	// For a token that is revoked before its time.
	provider.ReauthFunc = func(ctx context.Context) error {
		next, err := newToken(ctx, keystone, credential.auth)
		if err != nil {
			return err
		}
		return provider.SetTokenAndAuthResult(next.token)
	}
	s := &session{project: granted.project, region: credential.region, expires: granted.expires}
	if err := s.locate(ctx, provider, granted.catalog, credential.availability); err != nil {
		return nil, err
	}
	return s, nil
}

// locate finds the services in the catalog. gophercloud reads a version document where the catalog's
// URL has no version, with a context of its own unless it is given one.
func (s *session) locate(ctx context.Context, provider *gophercloud.ProviderClient, catalog tokens.ServiceCatalog, availability gophercloud.Availability) error {
	provider.EndpointLocator = func(opts gophercloud.EndpointOpts) (string, error) {
		return openstack.V3Endpoint(ctx, provider, &catalog, opts)
	}
	defer func() { provider.EndpointLocator = nil }() // it holds the catalog
	opts := gophercloud.EndpointOpts{Region: s.region, Availability: availability}
	var err error
	if s.compute, err = openstack.NewComputeV2(provider, opts); err != nil {
		return problem(callCatalog, err)
	}
	if s.network, err = openstack.NewNetworkV2(provider, opts); err != nil {
		return problem(callCatalog, err)
	}
	return nil
}
