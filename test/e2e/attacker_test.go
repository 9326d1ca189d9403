package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// attacker is a server that somebody has lured the approver to. It keeps all that it is sent.
type attacker struct {
	*httptest.Server
	// CA is in PEM; nil without TLS.
	CA []byte

	mu          sync.Mutex
	connections int
	// requests are as they came, with headers and bodies.
	requests []string
	// certificates counts the requests that came with a client certificate.
	certificates int
}

// Attackers that are in a test's names, so that the last test can look for them in what the approver says.
var (
	lures   []string
	luresMu sync.Mutex
)

func newAttacker(t *testing.T, plain bool, answer http.HandlerFunc) *attacker {
	t.Helper()
	a := &attacker{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The body is kept even when a header makes it no readable dump.
		text, err := httputil.DumpRequest(r, true)
		if err != nil {
			text = fmt.Appendf(nil, "%s %s: %v", r.Method, r.URL, err)
		}
		a.mu.Lock()
		a.requests = append(a.requests, string(text))
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			a.certificates++
		}
		a.mu.Unlock()
		answer(w, r)
	}))
	a.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.connections++
		}
	}
	if plain {
		a.Start()
	} else {
		a.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		a.StartTLS()
		a.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	}
	t.Cleanup(a.Close)
	luresMu.Lock()
	defer luresMu.Unlock()
	lures = append(lures, a.Listener.Addr().String())
	return a
}

// untouched expects that nobody even connected.
func (a *attacker) untouched(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connections > 0 {
		t.Errorf("the attacker was contacted %d times: %q", a.connections, a.requests)
	}
}

// got returns what arrived so far.
func (a *attacker) got() (requests []string, certificates int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.requests...), a.certificates
}

// words answers with the canary wherever a server can put words.
func words(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Warning", `299 - "`+canary+`"`)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"`+canary+`","message":"`+canary+`","code":500}`)
}

// lure is a kubeconfig that leads to the attacker, good but for the changes.
func (a *attacker) lure(t *testing.T, changes ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	c := &clientcmdapi.Cluster{Server: a.URL, CertificateAuthorityData: a.CA}
	user := &clientcmdapi.AuthInfo{Token: canary + "-token"}
	for _, change := range changes {
		change(c, user)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"], config.AuthInfos["u"] = c, user
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// credentialSecret creates a Secret with a clouds.yaml, and with a CA unless that is nil.
func credentialSecret(t *testing.T, name, clouds string, ca []byte) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: stage.Namespace, Name: name},
		Data:       map[string][]byte{"clouds.yaml": []byte(clouds)},
	}
	if ca != nil {
		secret.Data["cacert"] = ca
	}
	if err := theStage.Management.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// unsaid expects that a text holds nothing that the approver must keep to itself: credentials, tokens
// and keys, the words of clouds and API servers, and where tenants' URLs lead.
func unsaid(t *testing.T, where, text string) {
	t.Helper()
	secrets := []string{
		canary, "X-Auth-Token", "PRIVATE KEY", "Bearer ",
		"LS0tLS1CRUdJT", // -----BEGIN, in the base64 of a kubeconfig
		theStage.Cloud.URL(), strings.TrimPrefix(theStage.Cloud.URL(), "https://"),
		cluster.Credential.Secret, played.Credential.Secret,
	}
	luresMu.Lock()
	secrets = append(secrets, lures...)
	luresMu.Unlock()
	for line := range bytes.Lines([]byte(text)) {
		if bytes.HasPrefix(line, []byte("$ ")) {
			continue // the command line, which the bed writes
		}
		for _, secret := range secrets {
			if bytes.Contains(line, []byte(secret)) {
				t.Errorf("%s contains %q: %s", where, secret, line)
			}
		}
	}
}
