package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// patience is the deadline of calls that are to fail with it; grace is what may come on top.
const (
	patience = 500 * time.Millisecond
	grace    = 3 * time.Second
)

// steps are all requests of a first verdict, each of which may fail.
var steps = []struct {
	name      string
	service   simulator.Service
	operation simulator.Operation
}{
	{"token", simulator.Keystone, simulator.OpToken},
	{"discovery", simulator.Neutron, simulator.OpDiscovery},
	{"server", simulator.Nova, simulator.OpServer},
	{"ports", simulator.Neutron, simulator.OpPorts},
	{"floatingips", simulator.Neutron, simulator.OpFloatingIPs},
}

// TestFaults: a fault of the cloud is an error, whatever step it strikes, and never a refusal; the
// only answer that is one is Nova's 404 (E59, E68). Afterwards everything goes on.
func TestFaults(t *testing.T) {
	type want = map[string]reason.Reason // by step, "" for the rest
	unavailable, unclear := want{"": reason.CloudUnavailable}, want{"": reason.CloudAnswerInvalid}
	rejected := want{"": reason.CredentialRejected}
	var s *simulator.Simulator // for Status only, which needs one to know what services say
	status := func(code int, headers ...string) simulator.Effect { return s.Status(code, canary, headers...) }
	answer := func(contentType, body string) simulator.Effect {
		return simulator.Handle(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			if r.Method == http.MethodPost {
				w.Header().Set("X-Subject-Token", canary)
				w.WriteHeader(http.StatusCreated)
			}
			_, _ = w.Write([]byte(body))
		})
	}
	for _, c := range []struct {
		name   string
		effect simulator.Effect
		want   want
	}{
		{"400", status(400), unclear},
		{"401", status(401), rejected},
		{"403", status(403), want{"": reason.CloudForbidden}},
		{"404", status(404), want{"token": reason.CredentialRejected, "server": reason.ServerNotFound, "": reason.CloudAnswerInvalid}},
		{"406", status(406), unclear},
		{"409", status(409), unclear},
		{"413", status(413, "Retry-After", "3600"), unavailable},
		{"429", status(429, "Retry-After", "3600"), unavailable},
		{"498", status(498), unclear},
		{"500", status(500), unavailable},
		{"502", status(502, "Content-Type", "text/html"), unavailable},
		{"503", status(503, "Retry-After", "3600"), unavailable},
		{"204", status(204), unclear},
		{"304", status(304), unclear},
		{"hang", simulator.Hang(), unavailable},
		{"late", simulator.Delay(time.Hour), unavailable},
		{"reset", simulator.Reset(), unavailable},
		{"slow body", simulator.SlowBody(50 * time.Millisecond), unavailable},
		{"truncated", simulator.Truncate(), unclear},
		{"too large", simulator.HugeBody(2 * maxBody), unclear},
		{"large and of no use", simulator.HugeBody(1 << 16), unclear},
		{"a page of a proxy", answer("text/html", "<html>"+canary+"</html>"), unclear},
		{"text", answer("application/json", canary), unclear},
		{"nothing", answer("application/json", ""), unclear},
		{"null", answer("application/json", `null`), unclear},
		{"a list", answer("application/json", `["`+canary+`"]`), unclear},
		{"a string", answer("application/json", `"`+canary+`"`), unclear},
		{"a number", answer("application/json", `7`), unclear},
		{"an empty object", answer("application/json", `{}`), unclear},
		{"an error with status 200", answer("application/json", `{"error":{"message":"`+canary+`"}}`), unclear},
		{"nulls", answer("application/json", `{"token":null,"version":null,"versions":null,"server":null,"ports":null,"floatingips":null}`), unclear},
		{"strings", answer("application/json", `{"token":"x","version":"x","versions":"x","server":"x","ports":"x","floatingips":"x"}`), unclear},
		{"objects", answer("application/json", `{"token":{},"version":{},"versions":{},"server":{},"ports":{},"floatingips":{}}`), unclear},
		{"lists of strings", answer("application/json", `{"token":["x"],"versions":["x"],"server":["x"],"ports":["x"],"floatingips":["x"]}`), unclear},
		{"deep nesting", answer("application/json", `{"ports":`+strings.Repeat("[", 100_000)), unclear},
		{"fields of other types", answer("application/json", `{"token":{"project":[],"catalog":{}},"versions":[{"id":{}}],
			"server":{"id":{},"status":[]},"ports":[{"id":5,"fixed_ips":"x"}],"floatingips":[{"floating_ip_address":{}}]}`), unclear},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, step := range steps {
				t.Run(step.name, func(t *testing.T) {
					f := start(t)
					f.sim.Inject(simulator.Fault{Service: step.service, Operation: step.operation, Effect: c.effect})
					want, ok := c.want[step.name]
					if !ok {
						want = c.want[""]
					}
					began := time.Now()
					deadline := timeout
					if want == reason.CloudUnavailable {
						deadline = patience
					}
					ctx, cancel := context.WithTimeout(t.Context(), deadline)
					defer cancel()
					_, err := f.ask(ctx, "10.0.0.5", "192.0.2.1")
					if took := time.Since(began); took > deadline+grace {
						t.Errorf("took %s", took)
					}
					f.checkProblem(t, err, want)
					if outcome := reason.Of(err, "").Reason.Outcome(); outcome != reason.Error && want != reason.ServerNotFound {
						t.Errorf("%v is %s", err, outcome)
					}
					f.sim.ClearFaults()
					f.wantHoldings(t, []string{"10.0.0.5"}, s1)
				})
			}
		})
	}
}

// TestFaultsAfterwards strike a session that worked before.
func TestFaultsAfterwards(t *testing.T) {
	for name, c := range map[string]struct {
		fault simulator.Fault
		want  reason.Reason
	}{
		"the new token is refused": {simulator.Fault{Operation: simulator.OpToken, Effect: (&simulator.Simulator{}).Status(401, canary)}, reason.CredentialRejected},
		"Keystone is down":         {simulator.Fault{Operation: simulator.OpToken, Effect: (&simulator.Simulator{}).Status(503, canary)}, reason.CloudUnavailable},
		"Keystone hangs":           {simulator.Fault{Operation: simulator.OpToken, Effect: simulator.Hang()}, reason.CloudUnavailable},
		"Nova refuses every token": {simulator.Fault{Operation: simulator.OpServer, Effect: (&simulator.Simulator{}).Status(401, canary)}, reason.CredentialRejected},
		"Nova breaks":              {simulator.Fault{Operation: simulator.OpServer, Effect: (&simulator.Simulator{}).Status(500, canary)}, reason.CloudUnavailable},
		"Nova knows it no more":    {simulator.Fault{Operation: simulator.OpServer, Effect: (&simulator.Simulator{}).Status(404, canary)}, reason.ServerNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.wantHoldings(t, nil, s1)
			f.credential.RevokeTokens()
			f.sim.Inject(c.fault)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := f.ask(ctx, "10.0.0.5")
			f.checkProblem(t, err, c.want)
			f.sim.ClearFaults()
			f.wantHoldings(t, nil, s1)
		})
	}
}

func TestOneFailedTokenIsNoMore(t *testing.T) {
	f := start(t)
	f.sim.Inject(simulator.Fault{Operation: simulator.OpServer, Times: 1, Effect: f.sim.Status(401, canary)})
	f.wantHoldings(t, nil, s1)
	if n := f.sim.Count("", simulator.OpToken); n != 2 {
		t.Errorf("%d tokens were asked for", n)
	}
}

func TestEndlessPages(t *testing.T) {
	for _, op := range []simulator.Operation{simulator.OpPorts, simulator.OpFloatingIPs} {
		t.Run(string(op), func(t *testing.T) {
			f := start(t)
			f.project.AddFloatingIP("203.0.113.5", f.port.ID)
			f.sim.Inject(simulator.Fault{Operation: op, Effect: simulator.EndlessPages()})
			f.wantProblem(t, reason.CloudAnswerInvalid)
			if n := f.sim.Count("", op); n > maxPages+1 {
				t.Errorf("%d pages were read", n)
			}
		})
	}
}

func TestNoCloud(t *testing.T) {
	for name, c := range map[string]struct{ url, detail string }{
		"E59 nobody listens":  {"https://127.0.0.1:1/v3", "refused"},
		"E59 no such host":    {"https://keystone.invalid/v3", ""},
		"a port that is none": {"https://127.0.0.1:99999/v3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.secrets = append(f.secrets, "keystone.invalid", "99999")
			f.setClouds(f.credential.CloudsYAML(func(cloud *simulator.Cloud) { cloud.AuthURL = c.url }))
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := f.ask(ctx, "10.0.0.5")
			problem := f.checkProblem(t, err, reason.CloudUnavailable)
			if !strings.Contains(problem.Detail, c.detail) {
				t.Errorf("%q does not tell %q", problem.Detail, c.detail)
			}
		})
	}
}

// listener counts who comes to a place where nobody is to come.
func listener(t *testing.T, server func(http.Handler) *httptest.Server) (url string, came *atomic.Int32) {
	came = &atomic.Int32{}
	s := server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came.Add(1)
		_, _ = fmt.Fprint(w, `{"`+canary+`":true}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, came
}

// TestRedirects are not followed (A15): neither to another server nor to the same.
func TestRedirects(t *testing.T) {
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			f := start(t)
			url, came := listener(t, httptest.NewServer)
			f.sim.Inject(simulator.Fault{Service: step.service, Operation: step.operation, Effect: simulator.Redirect(url + "/" + canary)})
			f.wantProblem(t, reason.CloudAnswerInvalid)
			f.sim.ClearFaults()
			f.sim.ResetRequests()
			f.sim.Inject(simulator.Fault{Service: step.service, Operation: step.operation, Effect: simulator.Redirect(f.sim.URL() + "/" + canary)})
			f.wantProblem(t, reason.CloudAnswerInvalid)
			if came.Load() != 0 || f.sim.Count("", simulator.OpOther) != 0 {
				t.Error("the redirect was followed")
			}
		})
	}
}

// TestCatalogs: where the token goes is the cloud's word, but never without TLS (A17).
func TestCatalogs(t *testing.T) {
	for _, service := range []string{"compute", "network"} {
		t.Run("A17 http for "+service, func(t *testing.T) {
			f := start(t)
			url, came := listener(t, httptest.NewServer)
			f.sim.Inject(replaceIn(simulator.OpToken, f.sim.URL()+"/"+service, url+"/"+service))
			f.wantProblem(t, reason.CredentialInsecure)
			if came.Load() != 0 {
				t.Error("it was called")
			}
		})
		t.Run("a certificate of another CA for "+service, func(t *testing.T) {
			f := start(t)
			url, came := listener(t, httptest.NewTLSServer)
			f.sim.Inject(replaceIn(simulator.OpToken, f.sim.URL()+"/"+service, url+"/"+service))
			f.wantProblem(t, reason.CloudUnavailable)
			if came.Load() != 0 {
				t.Error("it was called")
			}
		})
		t.Run("no "+service, func(t *testing.T) {
			f := start(t)
			f.sim.Inject(replaceIn(simulator.OpToken, `"type":"`+service+`"`, `"type":"x"`))
			f.wantProblem(t, reason.CredentialInvalid)
		})
	}
	t.Run("A17 the next page elsewhere", func(t *testing.T) {
		f := start(t, simulator.Config{MaxPage: 1})
		f.project.AddPort(f.server.ID, "10.0.0.6")
		url, came := listener(t, httptest.NewServer)
		f.sim.Inject(replaceIn(simulator.OpPorts, f.sim.URL()+"/network", url))
		f.wantHoldings(t, nil, s1, "10.0.0.6 fixed")
		if came.Load() != 0 {
			t.Error("it was called")
		}
	})
	t.Run("a token without a project", func(t *testing.T) {
		f := start(t)
		f.sim.Inject(replaceIn(simulator.OpToken, `"project"`, `"x"`))
		f.wantProblem(t, reason.CredentialInvalid)
	})
}

// TestWaitingEndsWithTheContext: who waits for another's authentication, waits no longer than allowed.
func TestWaitingEndsWithTheContext(t *testing.T) {
	f := start(t)
	f.sim.Inject(simulator.Fault{Operation: simulator.OpToken, Effect: simulator.Hang()})
	slow, cancelSlow := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { _, err := f.ask(slow); first <- err }()
	for f.sim.Count("", simulator.OpToken) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := f.ask(ctx)
	if took := time.Since(began); took > grace {
		t.Errorf("took %s", took)
	}
	f.checkProblem(t, err, reason.CloudUnavailable)
	f.sim.ClearFaults()
	cancelSlow()
	f.checkProblem(t, <-first, reason.CloudUnavailable)
	f.wantHoldings(t, nil, s1)
}

// TestUnknownErrors have no words of their own.
func TestUnknownErrors(t *testing.T) {
	f := &fixture{secrets: []string{canary}}
	f.checkProblem(t, problem(callServer, errors.New(canary)), reason.CloudAnswerInvalid)
	f.checkProblem(t, problem(callServer, fmt.Errorf("x: %w", context.Canceled)), reason.CloudUnavailable)
}
