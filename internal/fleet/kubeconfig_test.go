package fleet

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// canary stands in every place of the test kubeconfigs where a secret, a path or a name may stand.
const canary = "CANARY"

// fields of a part of a kubeconfig.
type fields = map[string]any

// kubeconfig is an honest one, with a client certificate; parts are changed by tests.
type kubeconfig struct {
	ca, cert, key []byte
	current       string
	cluster, user fields
	// clusters, users and contexts besides the current ones, as they stand in the lists.
	clusters, users, contexts []any
	suffix                    string
}

func newKubeconfig() *kubeconfig {
	k := &kubeconfig{current: canary + "-context"}
	k.cert, k.key = fixedPair(1)
	k.ca = k.cert
	k.cluster = fields{"server": "https://canary.example.org:6443", "certificate-authority-data": k.ca}
	k.user = fields{"client-certificate-data": k.cert, "client-key-data": k.key}
	return k
}

// fixedPair is a certificate and its key, equal in every run, so that fuzz inputs stay valid.
func fixedPair(seed byte) (cert, key []byte) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: epoch, NotAfter: epoch.AddDate(1, 0, 0)}
	der := must(x509.CreateCertificate(nil, template, template, private.Public(), private))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(private))})
}

// withToken has a token in place of the client certificate.
func (k *kubeconfig) withToken() {
	k.user = fields{"token": canary + "-token"}
}

func (k *kubeconfig) bytes() []byte {
	file := must(json.Marshal(fields{
		"apiVersion": "v1", "kind": "Config", "current-context": k.current,
		"contexts": append(k.contexts, fields{"name": canary + "-context", "context": fields{"cluster": canary + "-cluster", "user": canary + "-user"}}),
		"clusters": append(k.clusters, fields{"name": canary + "-cluster", "cluster": k.cluster}),
		"users":    append(k.users, fields{"name": canary + "-user", "user": k.user}),
	}))
	return append(file, k.suffix...)
}

func TestHardenRefuses(t *testing.T) {
	const (
		file     = "/var/run/secrets/" + canary
		noServer = "server is not of the form https://HOST:PORT"
		noCA     = "certificate-authority-data is missing or holds no certificate"
		noPair   = "client-certificate-data and client-key-data are not a pair"
		filePair = "the user's certificate or key is a file path, expected client-certificate-data and client-key-data"
		another  = "the user impersonates another (as…)"
		noToken  = "the user's token holds white space or other characters that no token has"
		noParse  = "it cannot be parsed as a kubeconfig"
		missing  = "the current context's cluster or user is missing"
		current  = "current-context is not set or not among its contexts"
	)
	cases := []struct {
		name   string
		change func(*kubeconfig)
		want   string
	}{
		{"A12 exec", func(k *kubeconfig) {
			k.user["exec"] = fields{"apiVersion": "client.authentication.k8s.io/v1", "command": canary, "interactiveMode": "Never", "env": []any{fields{"name": "A", "value": canary}}}
		}, "the user runs a program (exec)"},
		{"A12 exec next to nothing else", func(k *kubeconfig) { k.user = fields{"exec": fields{}} }, "the user runs a program (exec)"},
		{"A12 auth-provider", func(k *kubeconfig) {
			k.user["auth-provider"] = fields{"name": "oidc", "config": fields{"refresh-token": canary}}
		}, "the user has an auth-provider"},
		{"A13 tokenFile", func(k *kubeconfig) { k.user = fields{"tokenFile": file} }, "the user's token is a file path (tokenFile), expected token"},
		{"A13 tokenFile next to a token", func(k *kubeconfig) { k.withToken(); k.user["tokenFile"] = file }, "the user's token is a file path (tokenFile), expected token"},
		{"A13 client-certificate", func(k *kubeconfig) { k.user["client-certificate"] = file }, filePair},
		{"A13 client-key", func(k *kubeconfig) { k.user["client-key"] = file }, filePair},
		{"A13 certificate-authority", func(k *kubeconfig) { k.cluster["certificate-authority"] = file },
			"certificate-authority is a file path, expected certificate-authority-data"},
		{"A14 proxy-url", func(k *kubeconfig) { k.cluster["proxy-url"] = "http://" + canary + ":8080" }, "proxy-url is set"},
		{"A14 as", func(k *kubeconfig) { k.user["as"] = canary }, another},
		{"A14 as-uid", func(k *kubeconfig) { k.user["as-uid"] = canary }, another},
		{"A14 as-groups", func(k *kubeconfig) { k.user["as-groups"] = []string{canary} }, another},
		{"A14 as-user-extra", func(k *kubeconfig) { k.user["as-user-extra"] = fields{"a": []string{canary}} }, another},
		{"A14 user name and password", func(k *kubeconfig) { k.user["username"], k.user["password"] = canary, canary }, "the user has a user name and password"},
		{"A14 password alone", func(k *kubeconfig) { k.user["password"] = canary }, "the user has a user name and password"},
		{"A14 insecure-skip-tls-verify", func(k *kubeconfig) { k.cluster["insecure-skip-tls-verify"] = true }, "insecure-skip-tls-verify is set"},
		{"A14 insecure-skip-tls-verify without a CA", func(k *kubeconfig) {
			k.cluster["insecure-skip-tls-verify"] = true
			delete(k.cluster, "certificate-authority-data")
		}, "insecure-skip-tls-verify is set"},

		{"A15 http", func(k *kubeconfig) { k.cluster["server"] = "http://" + canary + ":6443" }, noServer},
		{"A15 no scheme", func(k *kubeconfig) { k.cluster["server"] = canary + ":6443" }, noServer},
		{"A15 unix socket", func(k *kubeconfig) { k.cluster["server"] = "unix:///" + canary }, noServer},
		{"A15 no server", func(k *kubeconfig) { delete(k.cluster, "server") }, noServer},
		{"A15 no host", func(k *kubeconfig) { k.cluster["server"] = "https://:6443" }, noServer},
		{"A15 no slashes", func(k *kubeconfig) { k.cluster["server"] = "https:" + canary }, noServer},
		{"A15 user in the URL", func(k *kubeconfig) { k.cluster["server"] = "https://" + canary + ":" + canary + "@h:6443" }, noServer},
		{"A15 path", func(k *kubeconfig) { k.cluster["server"] = "https://h:6443/" + canary }, noServer},
		{"A15 path of another API server behind a proxy", func(k *kubeconfig) { k.cluster["server"] = "https://h/k8s/clusters/" + canary }, noServer},
		{"A15 query", func(k *kubeconfig) { k.cluster["server"] = "https://h:6443?" + canary }, noServer},
		{"A15 fragment", func(k *kubeconfig) { k.cluster["server"] = "https://h:6443#" + canary }, noServer},
		{"A15 no URL", func(k *kubeconfig) { k.cluster["server"] = "https://h:6443/%zz" + canary }, noServer},
		{"A15 no port number", func(k *kubeconfig) { k.cluster["server"] = "https://h:" + canary }, noServer},

		{"A14 no CA", func(k *kubeconfig) { delete(k.cluster, "certificate-authority-data") }, noCA},
		{"A14 empty CA", func(k *kubeconfig) { k.cluster["certificate-authority-data"] = "" }, noCA},
		{"A14 CA of other words", func(k *kubeconfig) { k.cluster["certificate-authority-data"] = []byte(canary) }, noCA},
		{"A14 CA is a key", func(k *kubeconfig) { k.cluster["certificate-authority-data"] = k.key }, noCA},

		{"no credential", func(k *kubeconfig) { k.user = fields{} }, "the user has neither a client certificate nor a token"},
		{"certificate without a key", func(k *kubeconfig) { delete(k.user, "client-key-data") }, noPair},
		{"key without a certificate", func(k *kubeconfig) { delete(k.user, "client-certificate-data") }, noPair},
		{"key without a certificate next to a token", func(k *kubeconfig) { k.user = fields{"token": canary, "client-key-data": k.key} }, noPair},
		{"certificate and key of other words", func(k *kubeconfig) { k.user["client-key-data"] = []byte(canary) }, noPair},
		{"key of another", func(k *kubeconfig) { _, k.user["client-key-data"] = fixedPair(2) }, noPair},
		{"token with a line break", func(k *kubeconfig) { k.user = fields{"token": canary + "\n"} }, noToken},
		{"token with a header", func(k *kubeconfig) { k.user = fields{"token": canary + "\r\nX: " + canary} }, noToken},
		{"token with other letters", func(k *kubeconfig) { k.user = fields{"token": canary + "ä"} }, noToken},

		{"no current context", func(k *kubeconfig) { k.current = "" }, current},
		{"a current context that is not there", func(k *kubeconfig) { k.current = canary }, current},
		{"a context without its cluster", func(k *kubeconfig) {
			k.current = "b"
			k.contexts = []any{fields{"name": "b", "context": fields{"cluster": canary, "user": canary + "-user"}}}
		}, missing},
		{"a context without its user", func(k *kubeconfig) {
			k.current = "b"
			k.contexts = []any{fields{"name": "b", "context": fields{"cluster": canary + "-cluster", "user": canary}}}
		}, missing},
		{"T45 two users of one name", func(k *kubeconfig) {
			k.users = []any{fields{"name": canary + "-user", "user": fields{"token": canary, "password": canary, "client-key-data": k.key}}}
		}, noParse},
		{"T45 two clusters of one name", func(k *kubeconfig) { k.clusters = []any{fields{"name": canary + "-cluster"}} }, noParse},
		{"T45 two contexts of one name", func(k *kubeconfig) { k.contexts = []any{fields{"name": canary + "-context"}} }, noParse},
		{"T45 a token that is no text", func(k *kubeconfig) { k.user["token"] = []string{canary} }, noParse},
		{"T45 a key that is no base64", func(k *kubeconfig) { k.user["client-key-data"] = canary + "!" }, noParse},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			k := newKubeconfig()
			c.change(k)
			config, err := Harden(k.bytes())
			checkRefused(t, k, config, err)
			wantError(t, err, "KubeconfigInvalid: "+c.want)
		})
	}
	for name, text := range map[string]string{
		"empty":           "",
		"null":            "null",
		"a list":          "[" + canary + "]",
		"words":           canary,
		"binary":          "\x00\xff" + canary,
		"another kind":    `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + canary + `"}}`,
		"another version": `{"apiVersion":"v9","kind":"Config","current-context":"` + canary + `"}`,
		"a tab":           "a:\n\t- " + canary,
		"a bomb":          bomb(),
		"deeply nested":   strings.Repeat("[", 100_000),
	} {
		t.Run("T45 "+name, func(t *testing.T) {
			config, err := Harden([]byte(text))
			checkRefused(t, newKubeconfig(), config, err)
		})
	}
}

// checkRefused holds for every refusal: it says that the kubeconfig is invalid, and nothing of what
// is in it.
func checkRefused(t *testing.T, k *kubeconfig, config *rest.Config, err error) {
	t.Helper()
	if config != nil {
		t.Fatalf("accepted as %#v", config)
	}
	var problem *reason.Problem
	if !errors.As(err, &problem) || problem.Reason != reason.KubeconfigInvalid {
		t.Fatalf("got %v, want KubeconfigInvalid", err)
	}
	checkProblem(t, err)
	for _, secret := range [][]byte{k.key, k.cert, k.ca} {
		block, _ := pem.Decode(secret)
		encoded := base64.StdEncoding.EncodeToString(block.Bytes)
		for _, part := range []string{encoded[:8], base64.StdEncoding.EncodeToString(secret)[:8], fmt.Sprintf("%v", block.Bytes[:3])} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%q holds bytes of a key or certificate", err)
			}
		}
	}
	if strings.Contains(strings.ToLower(err.Error()), strings.ToLower(canary)) {
		t.Errorf("%q holds what stands in the file", err)
	}
}

// bomb is YAML whose aliases stand for a billion values.
func bomb() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	return text
}

func TestHardenAccepts(t *testing.T) {
	host := "https://canary.example.org:6443"
	cases := []struct {
		name   string
		change func(*kubeconfig)
		want   func(*kubeconfig) rest.Config
	}{
		{"client certificate", func(*kubeconfig) {}, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: k.ca, CertData: k.cert, KeyData: k.key}}
		}},
		{"token", (*kubeconfig).withToken, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host, BearerToken: canary + "-token", TLSClientConfig: rest.TLSClientConfig{CAData: k.ca}}
		}},
		{"client certificate and token", func(k *kubeconfig) { k.user["token"] = "t" }, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: k.ca, CertData: k.cert, KeyData: k.key}}
		}},
		{"A14 tls-server-name", func(k *kubeconfig) { k.cluster["tls-server-name"] = "kubernetes" }, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{ServerName: "kubernetes", CAData: k.ca, CertData: k.cert, KeyData: k.key}}
		}},
		{"A15 trailing slash", func(k *kubeconfig) { k.withToken(); k.cluster["server"] = host + "/" }, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host + "/", BearerToken: canary + "-token", TLSClientConfig: rest.TLSClientConfig{CAData: k.ca}}
		}},
		{"an IPv6 address", func(k *kubeconfig) { k.withToken(); k.cluster["server"] = "https://[2001:db8::1]:6443" }, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: "https://[2001:db8::1]:6443", BearerToken: canary + "-token", TLSClientConfig: rest.TLSClientConfig{CAData: k.ca}}
		}},
		{"a CA with comments", func(k *kubeconfig) {
			k.withToken()
			k.cluster["certificate-authority-data"] = append([]byte("# my CA\n"), k.ca...)
		}, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host, BearerToken: canary + "-token", TLSClientConfig: rest.TLSClientConfig{CAData: append([]byte("# my CA\n"), k.ca...)}}
		}},
		{"what follows the first document", func(k *kubeconfig) { k.withToken(); k.suffix = "\n---\n[" }, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host, BearerToken: canary + "-token", TLSClientConfig: rest.TLSClientConfig{CAData: k.ca}}
		}},
		{"fields that change nothing", func(k *kubeconfig) {
			k.withToken()
			k.cluster["disable-compression"] = true
			k.cluster["extensions"] = []any{fields{"name": "e", "extension": fields{"exec": canary}}}
			k.user["extensions"] = []any{fields{"name": "e", "extension": fields{"exec": canary}}}
			k.user["Exec"], k.user["token-file"] = canary, canary
		}, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host, BearerToken: canary + "-token", TLSClientConfig: rest.TLSClientConfig{CAData: k.ca}}
		}},
		{"A12 A13 A14 bad contexts that are not the current one", func(k *kubeconfig) {
			k.withToken()
			k.contexts = []any{fields{"name": "bad", "context": fields{"cluster": "bad", "user": "bad"}}, fields{"name": "dangling", "context": fields{"cluster": "x", "user": "y"}}}
			k.clusters = []any{fields{"name": "bad", "cluster": fields{"server": "http://bad", "proxy-url": "http://bad", "insecure-skip-tls-verify": true, "certificate-authority": "/bad"}}}
			k.users = []any{fields{"name": "bad", "user": fields{"exec": fields{"command": "bad"}, "tokenFile": "/bad", "as": "bad", "username": "bad", "client-key": "/bad"}}}
		}, func(k *kubeconfig) rest.Config {
			return rest.Config{Host: host, BearerToken: canary + "-token", TLSClientConfig: rest.TLSClientConfig{CAData: k.ca}}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			k := newKubeconfig()
			c.change(k)
			got, err := Harden(k.bytes())
			if err != nil {
				t.Fatal(err)
			}
			if want := c.want(k); !reflect.DeepEqual(*got, want) {
				t.Errorf("got %#v, want %#v", *got, want)
			}
			checkHardened(t, got)
			if _, err := httpClient(got); err != nil {
				t.Error(err)
			}
		})
	}
}

// A12 to A15: what stands in a file of ours never gets into a configuration.
func TestHardenReadsNoFile(t *testing.T) {
	path := t.TempDir() + "/token"
	if err := os.WriteFile(path, []byte("management-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"tokenFile", "client-certificate", "client-key"} {
		t.Run("A13 "+field, func(t *testing.T) {
			k := newKubeconfig()
			k.withToken()
			k.user[field] = path
			if config, err := Harden(k.bytes()); err == nil || strings.Contains(fmt.Sprint(config, err), "management-token") {
				t.Errorf("got %v, %v", config, err)
			}
		})
	}
}

// checkHardened holds for every configuration that is accepted: whatever the kubeconfig, only these
// fields are set.
func checkHardened(t *testing.T, got *rest.Config) {
	t.Helper()
	rebuilt := rest.Config{
		Host: got.Host, BearerToken: got.BearerToken,
		TLSClientConfig: rest.TLSClientConfig{ServerName: got.ServerName, CAData: got.CAData, CertData: got.CertData, KeyData: got.KeyData},
	}
	if !reflect.DeepEqual(*got, rebuilt) {
		t.Errorf("other fields are set: %#v", *got)
	}
	host, secure := strings.CutPrefix(strings.ToLower(got.Host), "https://")
	if !secure || strings.ContainsAny(strings.TrimSuffix(host, "/"), "/@ ") || strings.Trim(host, "/?#:") == "" {
		t.Errorf("the host is %q", got.Host)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(got.CAData) {
		t.Error("the CA holds no certificate")
	}
	if len(got.CertData)+len(got.KeyData) == 0 && got.BearerToken == "" {
		t.Error("there is no credential")
	}
	if len(got.CertData)+len(got.KeyData) > 0 {
		if _, err := tls.X509KeyPair(got.CertData, got.KeyData); err != nil {
			t.Errorf("certificate and key are no pair: %v", err)
		}
	}
	if strings.ContainsAny(got.BearerToken, "\r\n") {
		t.Errorf("the token is %q", got.BearerToken)
	}
}

// FuzzHarden: no kubeconfig makes it panic, or leads to anything but the few allowed fields.
func FuzzHarden(f *testing.F) {
	k := newKubeconfig()
	for _, user := range []fields{
		k.user, {"token": "t"}, {"token": "t", "exec": fields{"command": "c"}}, {"tokenFile": "/etc/hostname"},
		{"token": "t", "as": "a", "as-user-extra": fields{"a": []string{"b"}}}, {"username": "u", "password": "p"},
		{"client-certificate": "/a", "client-key": "/b"}, {"auth-provider": fields{"name": "oidc"}},
	} {
		for _, more := range []fields{{}, {"proxy-url": "http://p"}, {"insecure-skip-tls-verify": true}, {"tls-server-name": "s"}, {"certificate-authority": "/a"}} {
			k.user, k.cluster = user, fields{"server": "https://h:6443", "certificate-authority-data": k.ca}
			maps.Copy(k.cluster, more)
			f.Add(k.bytes())
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		config, err := Harden(file)
		if (config == nil) == (err == nil) {
			t.Fatalf("got %v and %v", config, err)
		}
		if err == nil {
			checkHardened(t, config)
			return
		}
		var problem *reason.Problem
		if !errors.As(err, &problem) || problem.Reason != reason.KubeconfigInvalid || problem.Detail == "" {
			t.Errorf("got %v", err)
		}
	})
}
