package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"
)

// certificate is for the key, signed by another.
func certificate(t *testing.T, key any) []byte {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key == nil {
		key = signer.Public()
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// rsaKey has a modulus of that many bits; nobody signs with it.
func rsaKey(bits uint) *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}
}

func TestPool(t *testing.T) {
	good := certificate(t, nil)
	for name, test := range map[string]struct {
		bundle []byte
		want   error
	}{
		"one":                         {good, nil},
		"comments around it":          {[]byte("# a\n" + string(good) + "# b\n"), nil},
		"beside one that is damaged":  {append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), good...), nil},
		"nothing":                     {nil, ErrNoCertificate},
		"text":                        {[]byte("text"), ErrNoCertificate},
		"another block":               {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}), ErrNoCertificate},
		"RSA 8192":                    {certificate(t, rsaKey(8192)), nil},
		"A16 RSA 8193":                {certificate(t, rsaKey(8193)), ErrLargeKey},
		"A16 large behind a good one": {append(certificate(t, nil), certificate(t, rsaKey(100_000))...), ErrLargeKey},
	} {
		t.Run(name, func(t *testing.T) {
			pool, err := Pool(test.bundle)
			if !errors.Is(err, test.want) || (err == nil) != (pool != nil) {
				t.Errorf("got %v, expected %v", err, test.want)
			}
		})
	}
}

func TestCheckPair(t *testing.T) {
	if err := CheckPair(certificate(t, rsaKey(100_000)), nil); !errors.Is(err, ErrLargeKey) {
		t.Errorf("A16 large client key: %v", err)
	}
	if err := CheckPair(certificate(t, nil), []byte("key")); !errors.Is(err, ErrNoPair) {
		t.Errorf("no pair: %v", err)
	}
}
