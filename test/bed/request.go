package bed

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// RequestSpec describes a certificate request, honest or not. With nothing but CommonName, DNS and
// IPs set it is what a kubelet sends.
type RequestSpec struct {
	// Name is the object's name; empty lets the API server choose one that begins with "csr-".
	Name string
	// Signer is kubernetes.io/kubelet-serving when empty.
	Signer string
	// Subject is used as it is when CommonName is empty. Else CommonName is the subject's, beside
	// the organization system:nodes.
	Subject    pkix.Name
	CommonName string
	// DNS, IPs, Emails and URIs are the subject alternative names.
	DNS    []string
	IPs    []netip.Addr
	Emails []string
	URIs   []*url.URL
	// Extensions are added to the request.
	Extensions []pkix.Extension
	// Usages are "digital signature" and "server auth" when nil.
	Usages []certificatesv1.KeyUsage
	// Expiration is the lifetime asked for, in whole seconds, at least 10 minutes. Zero asks for none.
	Expiration time.Duration
	// Key signs the request. Nil makes an ECDSA P-256 key.
	Key crypto.Signer
	// PEM replaces the encoded request: all fields that go into it are ignored then.
	PEM []byte
}

// MakeRequest creates a CertificateSigningRequest with the given credentials, for example
// [Node.Config], and returns it as stored, with its key. The error is the API server's.
func MakeRequest(ctx context.Context, config *rest.Config, spec RequestSpec) (*certificatesv1.CertificateSigningRequest, crypto.Signer, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	if spec.Key == nil {
		if spec.Key, _, err = newKey(); err != nil {
			return nil, nil, err
		}
	}
	if spec.PEM == nil {
		if spec.PEM, err = encodeRequest(spec); err != nil {
			return nil, nil, err
		}
	}
	object := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: spec.Name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: spec.PEM, SignerName: spec.Signer, Usages: spec.Usages,
		},
	}
	if spec.Name == "" {
		object.GenerateName = "csr-"
	}
	if spec.Signer == "" {
		object.Spec.SignerName = certificatesv1.KubeletServingSignerName
	}
	if spec.Usages == nil {
		object.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	}
	if spec.Expiration > 0 {
		object.Spec.ExpirationSeconds = ptr.To(int32(spec.Expiration / time.Second))
	}
	created, err := clientset.CertificatesV1().CertificateSigningRequests().Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, nil, err
	}
	return created, spec.Key, nil
}

func encodeRequest(spec RequestSpec) ([]byte, error) {
	template := &x509.CertificateRequest{
		Subject: spec.Subject, DNSNames: spec.DNS, EmailAddresses: spec.Emails, URIs: spec.URIs,
		ExtraExtensions: spec.Extensions,
	}
	if spec.CommonName != "" {
		template.Subject = pkix.Name{CommonName: spec.CommonName, Organization: []string{"system:nodes"}}
	}
	for _, ip := range spec.IPs {
		template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, spec.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
