package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// unavailable says in our own words why a workload cluster could not be asked. The words of its API
// server are a tenant's, so they are not repeated.
func unavailable(err error) *reason.Problem {
	var (
		timeout net.Error
		lookup  *net.DNSError
		large   errTooLarge
	)
	text := "no usable answer"
	switch {
	case apierrors.IsUnauthorized(err):
		text = "the kubeconfig's credential was not accepted"
	case apierrors.IsForbidden(err):
		text = "the kubeconfig's user may not read or approve certificate signing requests"
	case apierrors.IsTooManyRequests(err):
		text = "it asks for fewer requests"
	case untrusted(err):
		text = "its certificate is not valid for the kubeconfig's server and CA"
	case errors.As(err, &large):
		text = large.Error()
	case errors.As(err, &lookup):
		text = "its host name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "the connection was refused"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		text = "no answer in time"
	case errors.Is(err, errEndedAtOnce), errors.Is(err, errEndless), errors.Is(err, errExpired):
		text = err.Error()
	case apierrors.IsInternalError(err), apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err):
		text = "it answered with an error of its own"
	}
	return reason.New(reason.ClusterUnavailable, "%s", text)
}

// untrusted tells whether the server's certificate was not accepted.
func untrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		unknown      x509.UnknownAuthorityError
	)
	return errors.As(err, &verification) || errors.As(err, &unknown)
}
