package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
)

// Errors of which a network makes few in a test.
func TestUnavailable(t *testing.T) {
	const (
		late        = "no answer in time"
		certificate = "its certificate is not valid for the kubeconfig's server and CA"
	)
	cases := map[string]struct {
		err  error
		want string
	}{
		"no host of this name":     {&net.DNSError{Err: foreignWords, Name: foreignWords, IsNotFound: true}, "its host name cannot be resolved"},
		"no name server":           {&net.DNSError{Err: foreignWords, IsTimeout: true}, "its host name cannot be resolved"},
		"refused":                  {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "the connection was refused"},
		"no route":                 {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, "no usable answer"},
		"the time of a context":    {context.DeadlineExceeded, late},
		"the time of a connection": {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, late},
		"an unknown CA":            {x509.UnknownAuthorityError{}, certificate},
		"another host":             {&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: foreignWords}}, certificate},
		"expired":                  {&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: foreignWords}}, certificate},
		"too large":                {errTooLarge{1}, errTooLarge{1}.Error()},
		"anything":                 {errors.New(foreignWords), "no usable answer"},
		"nothing":                  {nil, "no usable answer"},
		"a handler's":              {http.ErrHandlerTimeout, "no usable answer"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wantError(t, unavailable(c.err), "ClusterUnavailable: "+c.want)
			if c.err != nil {
				wrapped := fmt.Errorf("%s: %w", foreignWords, &url.Error{Op: "Get", URL: foreignWords, Err: c.err})
				wantError(t, unavailable(wrapped), "ClusterUnavailable: "+c.want)
			}
		})
	}
}
