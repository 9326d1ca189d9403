package openstack

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name, header string
		min, max     time.Duration
	}{
		{"none", "", 0, 0},
		{"seconds", "7", 7 * time.Second, 7 * time.Second},
		{"zero", "0", 0, 0},
		{"negative", "-7", 0, 0},
		{"a fraction", "1.5", 0, 0},
		{"text", canary, 0, 0},
		{"a day", "86400", maxRetryAfter, maxRetryAfter},
		{"more than an int", "99999999999", maxRetryAfter, maxRetryAfter},
		{"more than an int of 64 bits", strings.Repeat("9", 30), maxRetryAfter, maxRetryAfter},
		{"a date", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
		{"a date in the past", "Fri, 31 Dec 1999 23:59:59 GMT", 0, 0},
		{"a date far off", "Fri, 31 Dec 9999 23:59:59 GMT", maxRetryAfter, maxRetryAfter},
		{"a date in another form", time.Now().Add(time.Minute).UTC().Format(time.RFC850), 50 * time.Second, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := retryAfter(http.Header{"Retry-After": {c.header}}); got < c.min || got > c.max {
				t.Errorf("%q is %s, want %s", c.header, got, c.max)
			}
		})
	}
	if got := retryAfter(nil); got != 0 {
		t.Errorf("without headers: %s", got)
	}
}

// TestRetryAfterIsCarried from each step of a verdict to who plans the next.
func TestRetryAfterIsCarried(t *testing.T) {
	for _, step := range steps {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(step.name+" "+http.StatusText(status), func(t *testing.T) {
				f := start(t)
				f.sim.Inject(simulator.Fault{Service: step.service, Operation: step.operation, Effect: f.sim.Status(status, canary, "Retry-After", "7")})
				if p := f.wantProblem(t, reason.CloudUnavailable); p.RetryAfter != 7*time.Second {
					t.Errorf("wait %s", p.RetryAfter)
				}
				f.sim.ClearFaults()
				f.sim.Inject(simulator.Fault{Service: step.service, Operation: step.operation, Effect: f.sim.Status(status, canary)})
				if p := f.wantProblem(t, reason.CloudUnavailable); p.RetryAfter != 0 {
					t.Errorf("wait %s without being told to", p.RetryAfter)
				}
			})
		}
	}
}

// TestKeystoneDown: a token that is to be renewed is good until it expires.
func TestKeystoneDown(t *testing.T) {
	const left = 2 * time.Second // of the token, and so less than renewBefore
	f := start(t, simulator.Config{TokenLifetime: left})
	f.wantHoldings(t, nil, s1)
	f.sim.Inject(simulator.Fault{Operation: simulator.OpToken, Effect: f.sim.Status(503, canary)})
	f.wantHoldings(t, nil, s1)
	f.wantHoldings(t, nil, s1)
	if n := f.sim.Count("", simulator.OpToken); n != 3 {
		t.Errorf("%d tokens were asked for, want 3: the first, and one try for each verdict", n)
	}
	time.Sleep(left)
	f.wantProblem(t, reason.CloudUnavailable)
	f.sim.ClearFaults()
	f.wantHoldings(t, nil, s1)
}

// TestKeystoneRefuses: only silence leaves the old token its use.
func TestKeystoneRefuses(t *testing.T) {
	for status, want := range map[int]reason.Reason{401: reason.CredentialRejected, 403: reason.CloudForbidden, 400: reason.CloudAnswerInvalid} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			f := start(t, simulator.Config{TokenLifetime: time.Minute})
			f.wantHoldings(t, nil, s1)
			f.sim.Inject(simulator.Fault{Operation: simulator.OpToken, Effect: f.sim.Status(status, canary)})
			f.wantProblem(t, want)
			f.sim.ClearFaults()
			f.sim.Inject(simulator.Fault{Operation: simulator.OpToken, Effect: f.sim.Status(503, canary)})
			f.wantProblem(t, reason.CloudUnavailable) // the old session does not come back
		})
	}
}

// TestOldSessionOfOtherContent: silence of Keystone is no reason to use what the Secret held before.
func TestOldSessionOfOtherContent(t *testing.T) {
	f := start(t)
	f.wantHoldings(t, nil, s1)
	f.sim.Inject(simulator.Fault{Operation: simulator.OpToken, Effect: f.sim.Status(503, canary)})
	f.setClouds(f.project.AddApplicationCredential("next").CloudsYAML())
	f.wantProblem(t, reason.CloudUnavailable)
}

// TestRejectedInMidFlight: the next verdict does not begin with a session that was refused.
func TestRejectedInMidFlight(t *testing.T) {
	for _, step := range []simulator.Operation{simulator.OpServer, simulator.OpPorts, simulator.OpFloatingIPs} {
		t.Run(string(step), func(t *testing.T) {
			f := start(t)
			f.wantHoldings(t, []string{"192.0.2.1"}, s1)
			f.sim.Inject(simulator.Fault{Operation: step, Effect: f.sim.Status(401, canary)})
			f.wantProblem(t, reason.CredentialRejected)
			f.sim.ClearFaults()
			f.sim.ResetRequests()
			f.wantHoldings(t, []string{"192.0.2.1"}, s1)
			if first := f.sim.Requests()[0]; first.Operation != simulator.OpToken {
				t.Errorf("it began with %s %s", first.Method, first.Path)
			}
			f.sim.ResetRequests()
			f.wantHoldings(t, nil, s1)
			f.wantCalls(t, map[simulator.Operation]int{simulator.OpServer: 1, simulator.OpPorts: 1})
		})
	}
}

// TestOtherFailuresKeepTheSession: a fault of Nova costs no token.
func TestOtherFailuresKeepTheSession(t *testing.T) {
	f := start(t)
	f.wantHoldings(t, nil, s1)
	for _, status := range []int{403, 404, 429, 500, 503} {
		f.sim.Inject(simulator.Fault{Operation: simulator.OpServer, Times: 1, Effect: f.sim.Status(status, canary)})
		if _, err := f.ask(t.Context()); err == nil {
			t.Errorf("status %d: no error", status)
		}
	}
	f.wantHoldings(t, nil, s1)
	if n := f.sim.Count("", simulator.OpToken); n != 1 {
		t.Errorf("%d tokens were asked for", n)
	}
}

// TestEntries: new content takes the place of the old; it does not stand beside it.
func TestEntries(t *testing.T) {
	f := start(t)
	want := func(n int) {
		t.Helper()
		if got := f.source.clients.entries.Len(); got != n {
			t.Errorf("%d entries, want %d", got, n)
		}
	}
	for range 3 {
		f.setClouds(f.project.AddApplicationCredential("next").CloudsYAML())
		f.wantHoldings(t, nil, s1)
		want(1)
	}
	f.identityRef(map[string]any{"name": secretName, "cloudName": "default", "region": "RegionOne"})
	f.wantHoldings(t, nil, s1)
	want(2)
	f.identityRef(map[string]any{"name": secretName, "cloudName": "other"})
	f.wantProblem(t, reason.CredentialMissing)
	want(3)
}

// TestAnotherSecretInItsPlace: a name may be another Secret's, and so may a resourceVersion (A21).
func TestAnotherSecretInItsPlace(t *testing.T) {
	f := start(t)
	f.wantHoldings(t, nil, s1)
	next := f.project.AddApplicationCredential("next")
	secret := &corev1.Secret{ObjectMeta: f.secretMeta(), Data: map[string][]byte{keyClouds: []byte(next.CloudsYAML()), keyCA: f.sim.CAPEM()}}
	secret.UID = "another-uid"
	f.objects.version-- // the Secret was the last that was stored
	f.objects.put(secret)
	f.sim.ResetRequests()
	f.wantHoldings(t, nil, s1)
	for _, r := range f.sim.Requests() {
		if r.Credential != next.ID {
			t.Errorf("%s was asked with the credential of the Secret before", r.Path)
		}
	}
}
