package openstack

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// call names what was asked, for the person who reads that it failed.
type call string

const (
	callToken       call = "getting a token from Keystone"
	callCatalog     call = "finding the endpoints"
	callServer      call = "reading the server from Nova"
	callPorts       call = "listing the server's ports in Neutron"
	callSubports    call = "listing the trunks' subports in Neutron"
	callFloatingIPs call = "listing the floating IPs in Neutron"
)

var errEndless = errors.New("too many pages or rows")

// problem gives a failed call its reason, in our own words. gophercloud's errors hold the URL and
// the body of the answer, and both are chosen by whoever wrote the credential: repeating them would
// let a tenant read what only this process can reach.
func problem(c call, err error) error {
	if p := reason.Of(err, ""); p.Reason != "" {
		return p
	}
	var (
		reauth       *gophercloud.ErrUnableToReauthenticate
		afterReauth  *gophercloud.ErrErrorAfterReauthentication
		status       gophercloud.ErrUnexpectedResponseCode
		noEndpoint   *gophercloud.ErrEndpointNotFound
		verification *tls.CertificateVerificationError
		lookup       *net.DNSError
		network      net.Error
	)
	switch {
	case errors.Is(err, errInsecure):
		return reason.New(reason.CredentialInsecure, "%s: the catalog has an endpoint that is not https", c)
	case errors.As(err, &reauth):
		// Its own text is of the first 401; what matters is why no new token could be had.
		return problem(callToken, reauth.ErrReauth)
	case errors.As(err, &afterReauth):
		return problem(c, afterReauth.ErrOriginal)
	case errors.As(err, &status):
		p := reason.New(statusReason(c, status.Actual), "%s: status %d", c, status.Actual)
		p.RetryAfter = retryAfter(status.ResponseHeader)
		return p
	case errors.As(err, &noEndpoint):
		return reason.New(reason.CredentialInvalid, "%s: the catalog has none for this region and interface", c)
	case errors.Is(err, errRedirect):
		return reason.New(reason.CloudAnswerInvalid, "%s: %s", c, errRedirect)
	case errors.Is(err, errTooLarge), errors.Is(err, errEndless):
		return reason.New(reason.CloudAnswerInvalid, "%s: the answer is too large", c)
	case errors.As(err, &verification):
		return reason.New(reason.CloudUnavailable, "%s: the certificate is not valid for the endpoint and the credential's CA", c)
	case errors.As(err, &lookup):
		return reason.New(reason.CloudUnavailable, "%s: the host name cannot be resolved", c)
	case errors.Is(err, syscall.ECONNREFUSED):
		return reason.New(reason.CloudUnavailable, "%s: the connection was refused", c)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return reason.New(reason.CloudUnavailable, "%s: no answer in time", c)
	case errors.As(err, &network), errors.Is(err, context.Canceled):
		return reason.New(reason.CloudUnavailable, "%s: the connection broke", c)
	}
	return reason.New(reason.CloudAnswerInvalid, "%s: the answer cannot be understood", c)
}

func statusReason(c call, status int) reason.Reason {
	switch {
	case status == http.StatusUnauthorized:
		return reason.CredentialRejected
	case status == http.StatusForbidden:
		return reason.CloudForbidden
	case status == http.StatusNotFound && c == callServer:
		// Nova filters by project: deleted, never made, and another project's look the same (E68).
		return reason.ServerNotFound
	case status == http.StatusNotFound && c == callToken:
		// Keystone answers so for an application credential that was deleted.
		return reason.CredentialRejected
	case status == http.StatusTooManyRequests, status == http.StatusRequestEntityTooLarge, status >= http.StatusInternalServerError:
		return reason.CloudUnavailable
	}
	return reason.CloudAnswerInvalid
}

// maxRetryAfter bounds what a cloud can ask for: it may be a tenant's own, or mistaken.
const maxRetryAfter = 5 * time.Minute

// retryAfter reads the header in both of its forms (RFC 9110, section 10.2.3); 0 without one.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	var wanted time.Duration
	// Of a number that is too large, ParseUint returns the largest.
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		wanted = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wanted = time.Until(at)
	}
	return min(max(wanted, 0), maxRetryAfter)
}
