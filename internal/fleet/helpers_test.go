package fleet

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

var (
	nopLog = log.New(io.Discard, "", 0)
	// logged is all that this package, client-go among it, logs at the default level and three above.
	logged journal
	home   = client.ObjectKey{Namespace: "ns", Name: "c1"}
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // tests wait nearly all their time
		panic(err)
	}
	klog.SetLogger(logged.logger())
	code := m.Run()
	if before, _, found := strings.Cut(logged.String(), foreignWords); found {
		fmt.Fprintln(os.Stderr, "FAIL: the words of an API server were logged: "+before[strings.LastIndex(before, "\n")+1:]+"…")
		code = 1
	}
	os.Exit(code)
}

// journal keeps log lines.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.text.WriteString(prefix + " " + args + "\n")
	}, funcr.Options{Verbosity: 4})
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// secrets is the management cluster's Secrets, read by name only.
type secrets struct {
	client.Reader

	mu      sync.Mutex
	data    map[client.ObjectKey]map[string][]byte
	version map[client.ObjectKey]int
	reads   int
	err     error
	// before is called with no lock held when a Secret is read.
	before func(context.Context)
}

func newSecrets() *secrets {
	return &secrets{data: map[client.ObjectKey]map[string][]byte{}, version: map[client.ObjectKey]int{}}
}

// set writes the kubeconfig Secret of a cluster; nil deletes it.
func (s *secrets) set(cluster client.ObjectKey, data map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
	s.version[name]++
	s.data[name] = data
}

func (s *secrets) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *secrets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *secrets) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if s.before != nil {
		s.before(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	data := s.data[key]
	switch {
	case s.err != nil:
		return s.err
	case data == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	secret := into.(*corev1.Secret)
	secret.ResourceVersion = strconv.Itoa(s.version[key])
	secret.Data = data
	return nil
}

// kubeconfigFor is an honest kubeconfig with a token.
func kubeconfigFor(s *apiServer, token string) map[string][]byte {
	return map[string][]byte{"value": fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %q}}]
`, s.URL, base64.StdEncoding.EncodeToString(s.ca.pem()), token)}
}

// rig is a Fleet with everything around it.
type rig struct {
	*Fleet
	t       *testing.T
	server  *apiServer
	secrets *secrets
	log     journal
	// reports and changes in the order in which they came.
	reports chan error
	changes chan Key
}

// quick makes a Fleet's waits short enough for tests.
var quick = limits{
	reread:     time.Hour,
	minBackoff: 20 * time.Millisecond,
	maxBackoff: 100 * time.Millisecond,
	steady:     100 * time.Millisecond,
	answer:     5 * time.Second,
	watch:      time.Minute,
	hasty:      50 * time.Millisecond,
	pages:      500,
}

// newRig makes a Fleet that ends with the test, without following anything yet. Nothing that it
// reports or logs may hold the API server's words.
func newRig(t *testing.T, bounds limits) *rig {
	t.Helper()
	r := &rig{t: t, secrets: newSecrets(), reports: make(chan error, 10_000), changes: make(chan Key, 100_000)}
	r.Fleet = New(Options{
		Secrets: r.secrets,
		Changed: func(key Key) { r.changes <- key },
		Report: func(cluster client.ObjectKey, err error) {
			if cluster != home {
				t.Errorf("a report about %s", cluster)
			}
			checkProblem(t, err)
			r.reports <- err
		},
		UserAgent: "approver/test",
		Log:       r.log.logger(),
	})
	r.limits = bounds
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the Fleet does not stop")
		}
		if text := r.log.String(); strings.Contains(text, foreignWords) {
			t.Errorf("the API server's words were logged:\n%s", text)
		}
	})
	return r
}

// following is a rig that follows one honest cluster.
func following(t *testing.T, bounds limits, objects ...*object) *rig {
	t.Helper()
	r := newRig(t, bounds)
	r.server = newAPIServer(t)
	for _, csr := range objects {
		r.server.put(csr)
	}
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	r.Follow(home, "uid")
	r.wantReport("")
	return r
}

// checkProblem holds for every error that leaves the package.
func checkProblem(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var problem *reason.Problem
	if !errors.As(err, &problem) || problem.Reason.Entry().Meaning == "" || problem.Detail == "" {
		t.Errorf("%T %v is no problem of the closed list with a detail", err, err)
	}
	if strings.Contains(err.Error(), foreignWords) {
		t.Errorf("the API server's words are repeated: %v", err)
	}
}

// wantError compares the text of an error, "" standing for none.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	checkProblem(t, err)
	if got := textOf(err); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// wantReport waits for the next report, "" standing for nil.
func (r *rig) wantReport(want string) {
	r.t.Helper()
	select {
	case err := <-r.reports:
		if got := textOf(err); got != want {
			r.t.Fatalf("reported %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		r.t.Fatalf("nothing was reported, want %q", want)
	}
}

// awaitReport waits for a report, whatever comes before.
func (r *rig) awaitReport(want string) {
	r.t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case err := <-r.reports:
			if textOf(err) == want {
				return
			}
		case <-timeout:
			r.t.Fatalf("%q is not reported", want)
		}
	}
}

// eventually waits for a condition that something else brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// wantPending waits until a node's newest request is the named one, "" standing for none.
func (r *rig) wantPending(node, want string) {
	r.t.Helper()
	eventually(r.t, node+" has pending "+want, func() bool {
		p, ok := r.Pending(Key{Cluster: home, Node: node})
		return ok == (want != "") && p.Name == want
	})
}

func copyAtMost(w io.Writer, r io.Reader) (int64, error) {
	return io.Copy(w, io.LimitReader(r, 16<<20))
}

func contextAfter(r *http.Request, f func()) (stop func() bool) {
	return context.AfterFunc(r.Context(), f)
}

// listen takes an address again that was free a moment ago.
func listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }
