package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Whatever keeps a cluster from being followed is reported in our own words, and following goes on
// when it is over.
func TestFaults(t *testing.T) {
	redirect := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://127.0.0.1:1/"+foreignWords)
		w.WriteHeader(http.StatusFound)
	}
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	slow := func(w http.ResponseWriter, r *http.Request) {
		flush(w)
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}
	later := func(code int, why metav1.StatusReason) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			status(code, why)(w, r)
		}
	}
	words := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(code)
			_, _ = w.Write([]byte("<html>" + foreignWords))
		}
	}
	const (
		own    = "it answered with an error of its own"
		rights = "the kubeconfig's user may not read or approve certificate signing requests"
		fewer  = "it asks for fewer requests"
		none   = "no usable answer"
		late   = "no answer in time"
		token  = "the kubeconfig's credential was not accepted"
	)
	cases := []struct {
		name   string
		answer http.HandlerFunc
		want   string
		// atWatch is want where a watch differs: client-go turns what it cannot decode into an error
		// of the server.
		atWatch string
	}{
		{"E72 the credential expired", status(401, metav1.StatusReasonUnauthorized), token, ""},
		{"no rights", status(403, metav1.StatusReasonForbidden), rights, ""},
		{"not found", status(404, metav1.StatusReasonNotFound), none, ""},
		{"A16 Retry-After of an hour with 429", later(429, metav1.StatusReasonTooManyRequests), fewer, ""},
		{"A16 Retry-After of an hour with 503", later(503, metav1.StatusReasonServiceUnavailable), own, ""},
		{"500", status(500, metav1.StatusReasonInternalError), own, ""},
		{"504", status(504, metav1.StatusReasonTimeout), none, ""},
		{"a reason that nobody knows", status(418, foreignWords), none, ""},
		{"a code within 200", status(203, metav1.StatusReasonUnauthorized), token, none},
		{"words of a proxy with 502", words(502), own, ""},
		{"words with 200", words(200), none, own},
		{"A15 redirect", redirect, none, ""},
		{"A16 hangs", hang, late, ""},
		{"A16 slow", slow, late, ""},
		{"not JSON", whole("{" + foreignWords), none, own},
	}
	for _, kind := range []string{kindList, kindWatch} {
		for _, c := range cases {
			if kind == kindWatch && c.name == "A16 slow" {
				continue // a watch is slow by nature
			}
			t.Run(c.name+" at "+kind, func(t *testing.T) {
				t.Parallel()
				bounds := quick
				if c.want == late {
					bounds.answer = 200 * time.Millisecond
				}
				r := newRig(t, bounds)
				r.server = newAPIServer(t)
				r.server.put(serving("csr-1", "n1", 1))
				r.server.answer(kind, c.answer)
				r.secrets.set(home, kubeconfigFor(r.server, "t1"))
				r.Follow(home, "uid")
				want := c.want
				if kind == kindWatch && c.atWatch != "" {
					want = c.atWatch
				}
				for range 2 {
					r.wantReport("ClusterUnavailable: " + want)
				}
				r.server.answer(kind, nil)
				r.awaitReport("")
				r.wantPending("n1", "csr-1")
			})
		}
	}
}

// What goes wrong below HTTP.
func TestUnreachable(t *testing.T) {
	t.Run("A14 another CA", func(t *testing.T) {
		r := newRig(t, quick)
		r.server = newAPIServer(t)
		good := kubeconfigFor(r.server, "t1")
		r.server.ca = newAuthority(t)
		r.secrets.set(home, kubeconfigFor(r.server, "t1"))
		r.Follow(home, "uid")
		r.wantReport("ClusterUnavailable: its certificate is not valid for the kubeconfig's server and CA")
		// E72: a CA that was renewed is found because the kubeconfig is read again.
		r.secrets.set(home, good)
		r.awaitReport("")
		if n := len(r.server.requests(kindList)); n != 1 {
			t.Errorf("listed %d times", n)
		}
	})
	t.Run("A14 another name", func(t *testing.T) {
		r := newRig(t, quick)
		r.server = newAPIServer(t)
		data := kubeconfigFor(r.server, "t1")
		data["value"] = []byte(strings.Replace(string(data["value"]), "{server:", "{tls-server-name: other.example.org, server:", 1))
		r.secrets.set(home, data)
		r.Follow(home, "uid")
		r.wantReport("ClusterUnavailable: its certificate is not valid for the kubeconfig's server and CA")
		if r.server.requests(kindList) != nil {
			t.Error("the credential was sent")
		}
	})
	t.Run("refused, then back", func(t *testing.T) {
		r := newRig(t, quick)
		r.server = unstartedAPIServer(newAuthority(t))
		r.server.URL = "https://" + r.server.Listener.Addr().String()
		address := r.server.Listener.Addr().String()
		_ = r.server.Listener.Close()
		r.secrets.set(home, kubeconfigFor(r.server, "t1"))
		r.Follow(home, "uid")
		r.wantReport("ClusterUnavailable: the connection was refused")
		r.wantReport("ClusterUnavailable: the connection was refused")
		listener, err := listen(address)
		if err != nil {
			t.Skip("the port is taken: ", err)
		}
		r.server.Listener = listener
		r.server.URL = ""
		r.server.start(t)
		r.awaitReport("")
	})
	t.Run("a lost connection", func(t *testing.T) {
		r := following(t, quick, serving("csr-1", "n1", 1))
		r.wantPending("n1", "csr-1")
		r.server.CloseClientConnections()
		r.server.delete("csr-1")
		r.server.put(serving("csr-2", "n1", 2))
		r.wantPending("n1", "csr-2")
	})
}

// A15: the credential never arrives at the host that a redirect names.
func TestRedirect(t *testing.T) {
	for _, kind := range []string{kindList, kindWatch, kindGet, kindApprove} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			t.Run("A15 "+http.StatusText(code)+" at "+kind, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, quick)
				r.server = newAPIServer(t)
				thief := unstartedAPIServer(r.server.ca)
				thief.start(t)
				csr := r.server.put(serving("csr-1", "n1", 1))
				r.server.answer(kind, func(w http.ResponseWriter, request *http.Request) {
					http.Redirect(w, request, thief.URL+request.URL.String(), code)
				})
				r.secrets.set(home, kubeconfigFor(r.server, "t1"))
				r.Follow(home, "uid")
				if kind == kindList || kind == kindWatch {
					r.wantReport("ClusterUnavailable: no usable answer")
				} else {
					r.wantPending("n1", "csr-1")
					_, err := r.Get(context.Background(), home, Pending{Name: "csr-1", UID: csr.UID})
					if kind == kindApprove {
						err = r.Approve(context.Background(), home, csr, approvalFor(t, csr))
					}
					wantError(t, err, "ClusterUnavailable: no usable answer")
				}
				if len(r.server.requests(kind)) == 0 {
					t.Error("there was no redirect")
				}
				thief.mu.Lock()
				defer thief.mu.Unlock()
				if len(thief.asked) > 0 {
					t.Errorf("the other host was asked with %q", thief.asked[0].authorization)
				}
			})
		}
	}
}

// E72: a credential that is rejected has the kubeconfig read again, and the new one is used.
func TestRejectedCredential(t *testing.T) {
	r := following(t, quick, serving("csr-1", "n1", 1))
	r.wantPending("n1", "csr-1")
	time.Sleep(2 * quick.steady)
	reads := r.secrets.count()
	r.server.accept("t2")
	r.secrets.set(home, kubeconfigFor(r.server, "t2"))
	pending, _ := r.Pending(Key{Cluster: home, Node: "n1"})
	_, err := r.Get(context.Background(), home, pending)
	wantError(t, err, "ClusterUnavailable: the kubeconfig's credential was not accepted")
	eventually(t, "the new credential is used", func() bool {
		_, err := r.Get(context.Background(), home, pending)
		return err == nil
	})
	eventually(t, "a watch with the new credential", func() bool {
		watches := r.server.requests(kindWatch)
		return len(watches) == 2 && watches[1].authorization == "Bearer t2" && r.server.watches() == 1
	})
	if n := r.secrets.count() - reads; n != 1 {
		t.Errorf("the kubeconfig was read %d times", n)
	}
	r.wantReport("")
}

// E72: so does a certificate that a single call does not accept, while the watch lives on.
func TestUntrustedCall(t *testing.T) {
	r := newRig(t, quick)
	before, after := newAuthority(t), newAuthority(t)
	r.server = unstartedAPIServer(before)
	var presented atomic.Pointer[tls.Config]
	present := func(ca *authority) {
		presented.Store(&tls.Config{Certificates: []tls.Certificate{ca.issue(t, "127.0.0.1")}})
	}
	present(before)
	// With HTTP/1.1 each call beside the watch needs a connection of its own.
	r.server.TLS = &tls.Config{
		NextProtos:         []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return presented.Load(), nil },
	}
	r.server.StartTLS()
	t.Cleanup(r.server.shut)
	csr := r.server.put(serving("csr-1", "n1", 1))
	pending := Pending{Name: csr.Name, UID: csr.UID}
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	r.Follow(home, "uid")
	r.wantReport("")
	time.Sleep(2 * quick.steady)

	present(after)
	r.server.ca = after
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	_, err := r.Get(context.Background(), home, pending)
	wantError(t, err, "ClusterUnavailable: its certificate is not valid for the kubeconfig's server and CA")
	eventually(t, "the new CA is used", func() bool {
		_, err := r.Get(context.Background(), home, pending)
		return err == nil
	})
	r.wantReport("")
}

// A16: a server that accepts the credential for lists and rejects it for everything else.
func TestRejectedInTurns(t *testing.T) {
	r := following(t, quick, serving("csr-1", "n1", 1))
	r.wantPending("n1", "csr-1")
	r.server.answer(kindGet, status(401, metav1.StatusReasonUnauthorized))
	pending, _ := r.Pending(Key{Cluster: home, Node: "n1"})
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		_, _ = r.Get(context.Background(), home, pending)
	}
	if n := len(r.server.requests(kindList)); n > 25 {
		t.Errorf("listed %d times in a second", n)
	}
}

// E72: another content of the Secret leads to a new client, and the old watch ends.
func TestSecretReplaced(t *testing.T) {
	hourly := quick
	hourly.reread = 300 * time.Millisecond
	r := following(t, hourly, serving("csr-1", "n1", 1))
	r.wantPending("n1", "csr-1")
	old := r.server
	other := newAPIServer(t)
	other.put(serving("csr-2", "n1", 2))
	r.secrets.set(home, kubeconfigFor(other, "t2"))
	r.wantPending("n1", "csr-2")
	eventually(t, "the watch has moved", func() bool { return old.watches() == 0 && other.watches() == 1 })
	if got := other.requests(kindList)[0].authorization; got != "Bearer t2" {
		t.Errorf("listed with %q", got)
	}
	asked := len(old.requests(kindList))
	time.Sleep(2 * hourly.reread)
	if n := len(old.requests(kindList)) - asked; n > 0 {
		t.Errorf("the old API server was listed %d times more", n)
	}
	t.Run("the same content keeps its client", func(t *testing.T) {
		c := r.connection(home)
		before := c.current.Load().http
		reads := r.secrets.count()
		eventually(t, "the Secret is read again", func() bool { return r.secrets.count() > reads+1 })
		if s := c.current.Load(); s == nil || s.http != before {
			t.Error("there is another client")
		}
	})
}

// E72: what is wrong with the Secret is reported, and following begins when it is right.
func TestSecretWrong(t *testing.T) {
	hourly := quick
	hourly.reread = 200 * time.Millisecond
	r := newRig(t, hourly)
	r.server = newAPIServer(t)
	csr := r.server.put(serving("csr-1", "n1", 1))
	pending := Pending{Name: "csr-1", UID: csr.UID}
	usable := func() bool {
		_, err := r.Get(context.Background(), home, pending)
		return err == nil
	}
	r.Follow(home, "uid")
	missing := "KubeconfigMissing: Secret c1-kubeconfig does not exist"
	r.wantReport(missing)
	r.wantReport(missing)
	_, err := r.Get(context.Background(), home, pending)
	wantError(t, err, "ClusterUnavailable: there is no connection to it now")

	r.secrets.set(home, map[string][]byte{"other": []byte("x")})
	r.awaitReport("KubeconfigMissing: Secret c1-kubeconfig has no key value")
	r.secrets.set(home, map[string][]byte{"value": []byte(foreignWords)})
	r.awaitReport("KubeconfigInvalid: it cannot be parsed as a kubeconfig")
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	r.awaitReport("")
	r.wantPending("n1", "csr-1")
	if !usable() {
		t.Error("it cannot be asked")
	}

	r.secrets.fail(errors.New(foreignWords))
	r.awaitReport("ManagementUnavailable: reading Secret c1-kubeconfig: no answer")
	if !usable() {
		t.Error("a management cluster that is away takes the client away")
	}
	r.secrets.fail(nil)
	r.awaitReport("")

	r.secrets.set(home, nil)
	r.awaitReport(missing)
	if usable() {
		t.Error("a deleted kubeconfig is still used")
	}
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	r.awaitReport("")
	data := kubeconfigFor(r.server, "t1")
	data["value"] = []byte(strings.Replace(string(data["value"]), "https:", "http:", 1))
	r.secrets.set(home, data)
	r.awaitReport("KubeconfigInvalid: server is not of the form https://HOST:PORT")
	if usable() {
		t.Error("the kubeconfig before is still used")
	}
}

// An API server that never ends a watch does not keep it for ever.
func TestWatchEnds(t *testing.T) {
	short := quick
	short.watch, short.answer = 300*time.Millisecond, 100*time.Millisecond
	start := time.Now()
	r := following(t, short, serving("csr-1", "n1", 1))
	eventually(t, "three watches", func() bool { return len(r.server.requests(kindWatch)) >= 3 })
	if took := time.Since(start); took < 2*short.watch {
		t.Errorf("two watches took %s", took)
	}
	eventually(t, "one is open", func() bool { return r.server.watches() == 1 })
	if n := len(r.server.requests(kindList)); n != 1 {
		t.Errorf("listed %d times", n)
	}
	if len(r.reports) > 0 {
		t.Errorf("reported %v", <-r.reports)
	}
}

// A16: half of a list that goes on for ever does not count.
func TestEndlessList(t *testing.T) {
	r := newRig(t, quick)
	r.server = newAPIServer(t)
	r.server.answer(kindList, func(w http.ResponseWriter, _ *http.Request) {
		list := listOf(serving("csr-1", "n1", 1))
		list.Continue = foreignWords
		writeJSON(w, 200, list)
	})
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	r.Follow(home, "uid")
	r.wantReport("ClusterUnavailable: the list has too many pages")
	if n := len(r.server.requests(kindList)); n != quick.pages {
		t.Errorf("%d pages were read", n)
	}
	if _, ok := r.Pending(Key{Cluster: home, Node: "n1"}); ok {
		t.Error("a request of it is pending")
	}
}

// E53, A16: of more requests than are kept, some are kept, in little memory.
func TestLongList(t *testing.T) {
	const pages = 250
	r := newRig(t, quick)
	r.server = newAPIServer(t)
	r.server.answer(kindList, func(w http.ResponseWriter, request *http.Request) {
		page, _ := strconv.Atoi(request.URL.Query().Get("continue"))
		var objects []*object
		for i := range pageSize {
			number := strconv.Itoa(page*pageSize + i)
			objects = append(objects, serving("csr-"+number, "n"+number, page))
		}
		list := listOf(objects...)
		if page++; page < pages {
			list.Continue = strconv.Itoa(page)
		}
		writeJSON(w, 200, list)
	})
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	grown := peak(func() {
		r.Follow(home, "uid")
		r.wantReport("")
	})
	r.wantPending("n0", "csr-0")
	r.wantPending(fmt.Sprint("n", maxKept-1), fmt.Sprint("csr-", maxKept-1))
	r.wantPending(fmt.Sprint("n", maxKept), "")
	if len(r.changes) != maxKept {
		t.Errorf("%d nodes were reported", len(r.changes))
	}
	if grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// A page that is too large is asked for again in pages of one.
func TestLargePage(t *testing.T) {
	var objects []*object
	for i := range 12 {
		csr := serving("csr-"+string(rune('a'+i)), "n"+string(rune('a'+i)), i)
		csr.Spec.Request = make([]byte, 1<<20)
		objects = append(objects, csr)
	}
	// Megabytes take their time with the race detector.
	patient := quick
	patient.answer = time.Minute
	r := newRig(t, patient)
	r.server = newAPIServer(t)
	for _, csr := range objects {
		r.server.put(csr)
	}
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	r.Follow(home, "uid")
	r.wantReport("")
	for _, csr := range objects {
		r.wantPending(strings.TrimPrefix(csr.Spec.Username, "system:node:"), csr.Name)
	}
	lists := r.server.requests(kindList)
	if len(lists) != 13 {
		t.Fatalf("%d lists", len(lists))
	}
	for i, list := range lists {
		if want := map[bool]string{true: "100", false: "1"}[i == 0]; list.query.Get("limit") != want {
			t.Errorf("page %d has the limit %s", i, list.query.Get("limit"))
		}
	}
}

func TestFollowAndForget(t *testing.T) {
	settled := runtime.NumGoroutine()
	t.Run("following twice is one", func(t *testing.T) {
		r := following(t, quick, serving("csr-1", "n1", 1))
		r.Follow(home, "uid")
		time.Sleep(50 * time.Millisecond)
		if n := len(r.server.requests(kindList)); n != 1 {
			t.Errorf("listed %d times", n)
		}
	})
	t.Run("a forgotten cluster is gone at once", func(t *testing.T) {
		r := following(t, quick, serving("csr-1", "n1", 1))
		r.wantPending("n1", "csr-1")
		pending, _ := r.Pending(Key{Cluster: home, Node: "n1"})
		r.Forget(home)
		r.Forget(home)
		if _, ok := r.Pending(Key{Cluster: home, Node: "n1"}); ok {
			t.Error("a forgotten cluster has a pending request")
		}
		_, err := r.Get(context.Background(), home, pending)
		wantError(t, err, "RequestGone: the cluster is no longer followed")
		eventually(t, "its watch is closed", func() bool { return r.server.watches() == 0 })
		r.Follow(home, "uid")
		r.wantReport("")
		r.wantPending("n1", "csr-1")
	})
	t.Run("forgotten while the kubeconfig is read", func(t *testing.T) {
		r := newRig(t, quick)
		r.server = newAPIServer(t)
		r.secrets.set(home, kubeconfigFor(r.server, "t1"))
		reading := make(chan struct{})
		var ended atomic.Bool
		r.secrets.before = func(ctx context.Context) { close(reading); <-ctx.Done(); ended.Store(true) }
		r.Follow(home, "uid")
		<-reading
		r.Forget(home)
		eventually(t, "the reading ends", ended.Load)
		time.Sleep(50 * time.Millisecond)
		if len(r.reports) > 0 {
			t.Errorf("reported %v", <-r.reports)
		}
		if r.server.requests(kindList) != nil {
			t.Error("a forgotten cluster was listed")
		}
	})
	t.Run("forgotten while it does not answer", func(t *testing.T) {
		r := newRig(t, quick)
		r.server = newAPIServer(t)
		asked := make(chan struct{})
		r.server.answer(kindList, func(_ http.ResponseWriter, request *http.Request) {
			close(asked)
			<-request.Context().Done()
		})
		r.secrets.set(home, kubeconfigFor(r.server, "t1"))
		r.Follow(home, "uid")
		<-asked
		r.Forget(home)
		time.Sleep(50 * time.Millisecond)
		if len(r.reports) > 0 {
			t.Errorf("reported %v", <-r.reports)
		}
	})
	t.Run("a Fleet that has stopped follows nothing", func(t *testing.T) {
		r := New(Options{Secrets: newSecrets(), Report: func(client.ObjectKey, error) { t.Error("a report") }})
		ctx, stop := context.WithCancel(context.Background())
		stop()
		if err := r.Start(ctx); err != nil {
			t.Error(err)
		}
		r.Follow(home, "uid")
		if r.connection(home) != nil {
			t.Error("it is followed")
		}
	})
	t.Run("following while it stops", func(t *testing.T) {
		for range 50 {
			r := New(Options{Secrets: newSecrets(), Report: func(client.ObjectKey, error) {}})
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- r.Start(ctx) }()
			go stop()
			r.Follow(home, "uid")
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= settled })
}

func TestJitter(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := jitter(time.Second)
		least, most = min(least, d), max(most, d)
	}
	if least < 800*time.Millisecond || least > 900*time.Millisecond || most < 1100*time.Millisecond || most >= 1200*time.Millisecond {
		t.Errorf("from %s to %s", least, most)
	}
}
