package fleet

import (
	"errors"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/pki"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// Harden turns a kubeconfig that a tenant may have written into a client configuration: the current
// context only, and of it only an https server, a CA, and a client certificate or a token, all as
// inline data. Everything that would run a program, read one of our files, use somebody's proxy or
// weaken TLS is refused (A12 to A15), not skipped: a kubeconfig that only works with it would fail
// later with a worse message.
//
// The error is always a *reason.Problem, and never holds a byte of the kubeconfig: where a name is
// expected, a secret may stand. The parser's error can hold key bytes and passwords (seen with two
// users of one name, T45).
func Harden(kubeconfig []byte) (*rest.Config, error) {
	config, err := load(kubeconfig)
	if err != nil {
		return nil, err
	}
	kubecontext := config.Contexts[config.CurrentContext]
	if kubecontext == nil {
		return nil, invalid("current-context is not set or not among its contexts")
	}
	cluster, user := config.Clusters[kubecontext.Cluster], config.AuthInfos[kubecontext.AuthInfo]
	if cluster == nil || user == nil {
		return nil, invalid("the current context's cluster or user is missing")
	}
	if err := checkCluster(cluster); err != nil {
		return nil, err
	}
	if err := checkUser(user); err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:        cluster.Server,
		BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
	}, nil
}

// load parses, and turns a parser's panic into an error too: what it is fed is hostile.
func load(kubeconfig []byte) (config *clientcmdapi.Config, err error) {
	defer func() {
		if recover() != nil {
			config, err = nil, invalid("it cannot be parsed")
		}
	}()
	config, err = clientcmd.Load(kubeconfig)
	if err != nil || config == nil {
		return nil, invalid("it cannot be parsed as a kubeconfig")
	}
	return config, nil
}

func checkCluster(c *clientcmdapi.Cluster) error {
	switch {
	case c.CertificateAuthority != "":
		return invalid("certificate-authority is a file path, expected certificate-authority-data")
	case c.InsecureSkipTLSVerify:
		return invalid("insecure-skip-tls-verify is set")
	case c.ProxyURL != "":
		return invalid("proxy-url is set")
	}
	server, err := url.Parse(c.Server)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" || server.User != nil ||
		(server.Path != "" && server.Path != "/") || server.RawQuery != "" || server.Fragment != "" {
		return invalid("server is not of the form https://HOST:PORT")
	}
	switch _, err := pki.Pool(c.CertificateAuthorityData); {
	case errors.Is(err, pki.ErrLargeKey):
		return invalid("certificate-authority-data: " + pki.ErrLargeKey.Error())
	case err != nil:
		return invalid("certificate-authority-data is missing or holds no certificate")
	}
	return nil
}

func checkUser(u *clientcmdapi.AuthInfo) error {
	switch {
	case u.Exec != nil:
		return invalid("the user runs a program (exec)")
	case u.AuthProvider != nil:
		return invalid("the user has an auth-provider")
	case u.TokenFile != "":
		return invalid("the user's token is a file path (tokenFile), expected token")
	case u.ClientCertificate != "" || u.ClientKey != "":
		return invalid("the user's certificate or key is a file path, expected client-certificate-data and client-key-data")
	case u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0:
		return invalid("the user impersonates another (as…)")
	case u.Username != "" || u.Password != "":
		return invalid("the user has a user name and password")
	case strings.ContainsFunc(u.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return invalid("the user's token holds white space or other characters that no token has")
	}
	if len(u.ClientCertificateData) == 0 && len(u.ClientKeyData) == 0 {
		if u.Token == "" {
			return invalid("the user has neither a client certificate nor a token")
		}
		return nil
	}
	switch err := pki.CheckPair(u.ClientCertificateData, u.ClientKeyData); {
	case errors.Is(err, pki.ErrLargeKey):
		return invalid("client-certificate-data: " + pki.ErrLargeKey.Error())
	case err != nil:
		return invalid("client-certificate-data and client-key-data are not a pair")
	}
	return nil
}

func invalid(detail string) error {
	return reason.New(reason.KubeconfigInvalid, "%s", detail)
}
