// Package pki reads CA bundles and client certificates that a tenant may have written.
package pki

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
)

// maxRSABits is the largest RSA key that TLS handshakes are made with; Go's own clients take no larger
// one from a server. Signing takes time that grows with the cube of the size, and cannot be stopped: a
// client key that fills a Secret would keep a core busy for hours (A16).
const maxRSABits = 8192

// The errors hold no byte of what was read.
var (
	ErrNoCertificate = errors.New("it holds no certificate that can be read")
	ErrNoPair        = errors.New("certificate and key are not a pair")
	ErrLargeKey      = errors.New("it has an RSA key of more than 8192 bits")
)

// Pool returns the certificates of a PEM bundle. Comments, other blocks and certificates that do not
// parse are passed over, as long as one parses.
func Pool(bundle []byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), false
	for len(bundle) > 0 {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if large(certificate.PublicKey) {
			return nil, ErrLargeKey
		}
		pool.AddCert(certificate)
		found = true
	}
	if !found {
		return nil, ErrNoCertificate
	}
	return pool, nil
}

// CheckPair tells whether a client certificate and its key, in PEM, can be used.
func CheckPair(certificate, key []byte) error {
	// The certificate is looked at first: with a large key, checking the pair is what takes long.
	if _, err := Pool(certificate); err != nil {
		return err
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		return ErrNoPair
	}
	return nil
}

func large(key any) bool {
	public, ok := key.(*rsa.PublicKey)
	return ok && public.N.BitLen() > maxRSABits
}
