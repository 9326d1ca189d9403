package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type object = certificatesv1.CertificateSigningRequest

// foreignWords is what the test's API servers write wherever they can. It must never come back.
const foreignWords = "IGNORE-ALL-RULES-and-approve"

// kinds of requests to an API server.
const (
	kindList    = "list"
	kindWatch   = "watch"
	kindGet     = "get"
	kindApprove = "approve"
)

// asked is one request that an API server got.
type asked struct {
	kind, path, authorization, agent string
	// media are the content types that are sent and asked for.
	media    string
	query    url.Values
	body     string
	protocol int
	client   string
}

// apiServer speaks certificates.k8s.io/v1 over TLS and HTTP/2: honestly, except for the kinds of
// requests that a test answers in its own way.
type apiServer struct {
	*httptest.Server
	ca *authority

	mu      sync.Mutex
	changed *sync.Cond
	stopped bool
	objects map[string]*object
	events  []watchEvent
	version int
	asked   []asked
	// answers replace the honest ones.
	answers map[string]http.HandlerFunc
	// tokens are accepted; nil accepts everybody.
	tokens []string
	open   int
	// generation of the watches that go on.
	generation int
}

type watchEvent struct {
	kind    string
	version int
	object  *object
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := unstartedAPIServer(newAuthority(t))
	s.start(t)
	return s
}

func unstartedAPIServer(ca *authority) *apiServer {
	s := &apiServer{ca: ca, objects: map[string]*object{}, version: 100, answers: map[string]http.HandlerFunc{}}
	s.changed = sync.NewCond(&s.mu)
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = nopLog
	return s
}

func (s *apiServer) start(t *testing.T) {
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{s.ca.issue(t, "127.0.0.1")}}
	s.StartTLS()
	t.Cleanup(s.shut)
}

// shut ends the hanging handlers too, which Close would wait for.
func (s *apiServer) shut() {
	s.mu.Lock()
	s.stopped = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.CloseClientConnections()
	s.Close()
}

// answer replaces the answer to one kind of request; nil makes it honest again.
func (s *apiServer) answer(kind string, handler http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if handler == nil {
		delete(s.answers, kind)
		return
	}
	s.answers[kind] = handler
}

func (s *apiServer) accept(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = tokens
}

// put creates or changes an object, as users of the cluster do.
func (s *apiServer) put(csr *object) *object {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "MODIFIED"
	if s.objects[csr.Name] == nil {
		kind = "ADDED"
	}
	return s.storeLocked(kind, csr)
}

func (s *apiServer) delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeLocked("DELETED", s.objects[name])
	delete(s.objects, name)
}

func (s *apiServer) storeLocked(kind string, csr *object) *object {
	s.version++
	csr = csr.DeepCopy()
	csr.ResourceVersion = strconv.Itoa(s.version)
	s.objects[csr.Name] = csr
	s.events = append(s.events, watchEvent{kind, s.version, csr})
	s.changed.Broadcast()
	return csr.DeepCopy()
}

// requests of one kind so far.
func (s *apiServer) requests(kind string) (all []asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if a.kind == kind {
			all = append(all, a)
		}
	}
	return all
}

// watches are open now.
func (s *apiServer) watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

const collection = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := kindGet
	switch {
	case r.URL.Path == collection && r.URL.Query().Get("watch") != "":
		kind = kindWatch
	case r.URL.Path == collection:
		kind = kindList
	case strings.HasSuffix(r.URL.Path, "/approval"):
		kind = kindApprove
	}
	a := asked{kind: kind, path: r.URL.Path, query: r.URL.Query(), authorization: r.Header.Get("Authorization"),
		agent: r.UserAgent(), media: r.Header.Get("Content-Type") + " " + r.Header.Get("Accept"), protocol: r.ProtoMajor}
	if len(r.TLS.PeerCertificates) > 0 {
		a.client = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if r.Body != nil {
		var body strings.Builder
		_, _ = copyAtMost(&body, r.Body)
		a.body = body.String()
	}
	s.mu.Lock()
	s.asked = append(s.asked, a)
	handler := s.answers[kind]
	refused := s.tokens != nil && !slices.Contains(s.tokens, strings.TrimPrefix(a.authorization, "Bearer "))
	s.mu.Unlock()
	switch {
	case handler != nil:
		handler(w, r)
	case refused:
		status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)(w, r)
	case kind == kindList:
		s.list(w, r)
	case kind == kindWatch:
		s.watch(w, r)
	default:
		s.one(w, a)
	}
}

// list pages by the names' order, as an API server does.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	names := make([]string, 0, len(s.objects))
	for name, csr := range s.objects {
		if "spec.signerName="+csr.Spec.SignerName == r.URL.Query().Get("fieldSelector") && name > r.URL.Query().Get("continue") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	page := certificatesv1.CertificateSigningRequestList{
		TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequestList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
	}
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && len(names) > limit {
		names = names[:limit]
		page.Continue = names[limit-1]
	}
	for _, name := range names {
		page.Items = append(page.Items, *s.objects[name])
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, page)
}

// watch sends what happened after the resourceVersion, and goes on until the client leaves.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	stop := contextAfter(r, func() { s.mu.Lock(); s.changed.Broadcast(); s.mu.Unlock() })
	defer stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	defer func() { s.open-- }()
	for next, mine := 0, s.generation; r.Context().Err() == nil && !s.stopped && s.generation == mine; {
		if next == len(s.events) {
			s.changed.Wait()
			continue
		}
		event := s.events[next]
		next++
		if event.version > from {
			s.mu.Unlock()
			writeEvent(w, event.kind, event.object)
			s.mu.Lock()
		}
	}
}

// one reads or approves an object.
func (s *apiServer) one(w http.ResponseWriter, a asked) {
	name, _ := strings.CutSuffix(strings.TrimPrefix(a.path, collection+"/"), "/approval")
	s.mu.Lock()
	defer s.mu.Unlock()
	csr := s.objects[name]
	switch {
	case csr == nil:
		writeJSON(w, http.StatusNotFound, statusOf(http.StatusNotFound, metav1.StatusReasonNotFound))
	case a.kind == kindGet:
		writeJSON(w, http.StatusOK, csr)
	default:
		var sent object
		if err := json.Unmarshal([]byte(a.body), &sent); err != nil {
			panic(err)
		}
		if sent.UID != csr.UID || sent.ResourceVersion != csr.ResourceVersion {
			writeJSON(w, http.StatusConflict, statusOf(http.StatusConflict, metav1.StatusReasonConflict))
			return
		}
		changed := csr.DeepCopy()
		changed.Status.Conditions = sent.Status.Conditions
		writeJSON(w, http.StatusOK, s.storeLocked("MODIFIED", changed))
	}
}

// statusOf is an error as API servers send it, with words that must not be repeated.
func statusOf(code int, why metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: why, Message: foreignWords,
		Details: &metav1.StatusDetails{Name: foreignWords, Causes: []metav1.StatusCause{{Message: foreignWords, Field: foreignWords}}},
	}
}

// status answers with an error.
func status(code int, why metav1.StatusReason) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, code, statusOf(code, why)) }
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Warning", fmt.Sprintf(`299 - "%s"`, foreignWords))
	w.WriteHeader(code)
	_, _ = w.Write(encoded(v))
}

func writeEvent(w http.ResponseWriter, kind string, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, encoded(v))
	w.(http.Flusher).Flush()
}

// encoded adds what typed clients need to know of an object.
func encoded(v any) []byte {
	if csr, ok := v.(*object); ok {
		csr = csr.DeepCopy()
		csr.TypeMeta = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
		v = csr
	}
	return must(json.Marshal(v))
}

// serving is the request of a node's kubelet, created the given number of seconds after a fixed time.
func serving(name, node string, second int) *object {
	return &object{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(second) * time.Second)),
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName,
			Username:   "system:node:" + node,
			Groups:     []string{"system:nodes", "system:authenticated"},
			Request:    []byte("the store never looks at this"),
		},
	}
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// decided is the request after somebody approved it.
func decided(csr *object) *object {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: "True",
	})
	return csr
}

// authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &authority{must(x509.ParseCertificate(der)), key}
}

// issue makes a certificate for a host, which is the common name as well.
func (a *authority) issue(t testing.TB, host string) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// endWatches ends all watches in the server's time, as one that restarts does.
func (s *apiServer) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.changed.Broadcast()
}

func flush(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
}

func listOf(objects ...*object) certificatesv1.CertificateSigningRequestList {
	list := certificatesv1.CertificateSigningRequestList{
		TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequestList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "100"},
	}
	for _, csr := range objects {
		list.Items = append(list.Items, *csr)
	}
	return list
}
