package openstack

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"
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
	if r.standard = pool(standard); r.standard == nil {
		return nil, fmt.Errorf("the default CA for OpenStack holds no certificate in PEM")
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
	made := pool(bundle)
	if made == nil {
		return nil, invalid("key %s of Secret %s holds no certificate", keyCA, secret.Name)
	}
	r.pools.Add(hash, made)
	return made, nil
}

func pool(bundle []byte) *x509.CertPool {
	made := x509.NewCertPool()
	if !made.AppendCertsFromPEM(bundle) {
		return nil
	}
	return made
}
