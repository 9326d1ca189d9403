package bed

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority is a certificate authority whose key the bed holds.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte // the certificate
}

func newAuthority(name string) (*authority, error) {
	key, _, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: certificatePEM(cert.Raw)}, nil
}

func loadAuthority(certFile, keyFile string) (*authority, error) {
	data, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	certs, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	key, err := keyutil.PrivateKeyFromFile(keyFile)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a %T cannot sign", keyFile, key)
	}
	return &authority{cert: certs[0], key: signer, pem: data}, nil
}

// issue signs a certificate for a new key; both are returned as PEM. It is valid for one day.
func (a *authority) issue(template x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-5 * time.Minute)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	return certificatePEM(der), keyPEM, nil
}

// issueClient signs a client certificate for a Kubernetes user.
func (a *authority) issueClient(user string, groups []string) (certPEM, keyPEM []byte, err error) {
	return a.issue(x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// newKey makes an ECDSA P-256 key.
func newKey() (crypto.Signer, []byte, error) {
	data, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, nil, err
	}
	key, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, nil, err
	}
	return key.(crypto.Signer), data, nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}
