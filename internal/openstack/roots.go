package openstack

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/pki"
)

// maxPools bounds the cache of CA pools. Clouds are few; tenants may write many.
const maxPools = 1000

// roots hands out CA pools. Thousands of clusters of one cloud trust the same CA, so a pool is made
// once for each content.
type roots struct {
	pools    *lru.Cache
	standard *x509.CertPool // nil: the system's
}

func newRoots(standard []byte) (*roots, error) {
	r := &roots{pools: lru.New(maxPools)}
	if len(standard) == 0 {
		return r, nil
	}
	var err error
	if r.standard, err = pki.Pool(standard); err != nil {
		return nil, fmt.Errorf("the default CA for OpenStack: %w", err)
	}
	return r, nil
}

// of returns the CAs that a credential trusts; nil means the system's. A bundle may hold comments; it
// is bad only when no certificate in it parses, and then it is refused: the default CAs are no
// substitute for the one that was meant.
func (r *roots) of(secret *corev1.Secret) (*x509.CertPool, error) {
	bundle := secret.Data[keyCA]
	if len(bundle) == 0 {
		return r.standard, nil
	}
	hash := sha256.Sum256(bundle)
	if found, ok := r.pools.Get(hash); ok {
		return found.(*x509.CertPool), nil
	}
	made, err := pki.Pool(bundle)
	if err != nil {
		return nil, invalid("key %s of Secret %s: %s", keyCA, secret.Name, err)
	}
	r.pools.Add(hash, made)
	return made, nil
}
