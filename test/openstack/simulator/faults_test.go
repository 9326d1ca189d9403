package simulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

type faultTest struct {
	sim        *simulator.Simulator
	credential *simulator.Credential
	client     clients
	server     simulator.Server
}

func newFaultTest(t *testing.T) faultTest {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	server := project.AddServer("n1")
	project.AddPort(server.ID, "10.0.0.5")
	credential := project.AddApplicationCredential("approver")
	client := connect(t, sim, credential)
	sim.ResetRequests()
	return faultTest{sim, credential, client, server}
}

func (f faultTest) getServer(ctx context.Context) error {
	_, err := servers.Get(ctx, f.client.nova, f.server.ID).Extract()
	return err
}

func (f faultTest) isServer(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, f.server.ID) }

func (f faultTest) listPorts(ctx context.Context) error {
	_, err := f.client.ports(ctx, query("device_id="+f.server.ID))
	return err
}

func TestStatusFaults(t *testing.T) {
	for _, code := range []int{400, 403, 404, 406, 413, 429, 500, 502, 503, 504} {
		f := newFaultTest(t)
		f.sim.Inject(simulator.Fault{Times: 2, Effect: f.sim.Status(code, "", "Retry-After", "7")})
		for name, err := range map[string]error{"server": f.getServer(t.Context()), "ports": f.listPorts(t.Context())} {
			var unexpected gophercloud.ErrUnexpectedResponseCode
			if !errors.As(err, &unexpected) || unexpected.Actual != code || unexpected.ResponseHeader.Get("Retry-After") != "7" {
				t.Errorf("%d %s: got %v", code, name, err)
			} else if !json.Valid(unexpected.Body) {
				t.Errorf("%d %s: body is %s", code, name, unexpected.Body)
			}
		}
		if err := errors.Join(f.getServer(t.Context()), f.listPorts(t.Context())); err != nil {
			t.Errorf("%d: after two times still %v", code, err)
		}
	}
}

func TestUnauthorizedOnce(t *testing.T) {
	f := newFaultTest(t)
	f.sim.Inject(simulator.Fault{Operation: simulator.OpServer, Times: 1, Effect: f.sim.Status(401, "")})
	if err := f.getServer(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
	if n := f.sim.Count(simulator.Keystone, simulator.OpToken); n != 1 {
		t.Errorf("signed in %d times", n)
	}
}

func TestWhichRequests(t *testing.T) {
	f := newFaultTest(t)
	other := connect(t, f.sim, f.sim.AddProject("other").AddApplicationCredential("approver"))
	refuse := f.sim.Status(503, "")
	for name, test := range map[string]struct {
		fault         simulator.Fault
		server, ports bool // are hit
	}{
		"any":                {simulator.Fault{}, true, true},
		"service":            {simulator.Fault{Service: simulator.Nova}, true, false},
		"operation":          {simulator.Fault{Operation: simulator.OpPorts}, false, true},
		"region":             {simulator.Fault{Region: "RegionOne"}, true, true},
		"another region":     {simulator.Fault{Region: "two"}, false, false},
		"another credential": {simulator.Fault{Credential: "x"}, false, false},
		"own match":          {simulator.Fault{Match: f.isServer}, true, false},
	} {
		test.fault.Effect = refuse
		remove := f.sim.Inject(test.fault)
		if got := f.getServer(t.Context()) != nil; got != test.server {
			t.Errorf("%s: server is hit: %v", name, got)
		}
		if got := f.listPorts(t.Context()) != nil; got != test.ports {
			t.Errorf("%s: ports are hit: %v", name, got)
		}
		remove()
	}
	f.sim.Inject(simulator.Fault{Credential: f.credential.ID, Effect: refuse})
	if _, err := other.ports(t.Context(), ""); err != nil || f.listPorts(t.Context()) == nil {
		t.Errorf("by credential: the other one got %v", err)
	}
	f.sim.ClearFaults()
	if err := f.listPorts(t.Context()); err != nil {
		t.Errorf("after clearing: %v", err)
	}
	f.sim.Inject(simulator.Fault{Operation: simulator.OpToken, Effect: refuse})
	credential := f.sim.AddProject("third").AddApplicationCredential("approver")
	if _, err := signIn(t, f.sim, authOptions(f.sim, credential)); status(err) != 503 {
		t.Errorf("token: got %v", err)
	}
}

func TestDelayAndHang(t *testing.T) {
	f := newFaultTest(t)
	f.sim.Inject(simulator.Fault{Times: 1, Effect: simulator.Delay(50 * time.Millisecond)})
	began := time.Now()
	if err := f.getServer(t.Context()); err != nil || time.Since(began) < 50*time.Millisecond {
		t.Errorf("delay: %v after %v", err, time.Since(began))
	}
	for name, effect := range map[string]simulator.Effect{
		"hang": simulator.Hang(), "long delay": simulator.Delay(time.Hour), "slow body": simulator.SlowBody(time.Second),
	} {
		remove := f.sim.Inject(simulator.Fault{Effect: effect})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		// The client may also see the end of a connection that an earlier fault left behind.
		if err := f.getServer(ctx); err == nil {
			t.Errorf("%s: got an answer", name)
		}
		cancel()
		remove()
	}
}

func TestHangingRequestIsLogged(t *testing.T) {
	f := newFaultTest(t)
	f.sim.Inject(simulator.Fault{Operation: simulator.OpServer, Effect: simulator.Hang()})
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.getServer(ctx) }()
	for f.sim.Count(simulator.Nova, simulator.OpServer) == 0 {
		time.Sleep(time.Millisecond)
	}
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if entries := f.sim.Requests(); len(entries) != 1 || entries[0].Status != 0 {
		t.Errorf("logged %+v", entries)
	}
}

func TestBrokenAnswers(t *testing.T) {
	var syntax *json.SyntaxError
	for name, test := range map[string]struct {
		effect func(*simulator.Simulator) simulator.Effect
		is     func(error) bool
	}{
		"reset": {
			func(*simulator.Simulator) simulator.Effect { return simulator.Reset() },
			func(err error) bool { return errors.Is(err, syscall.ECONNRESET) },
		},
		"truncated": {
			func(*simulator.Simulator) simulator.Effect { return simulator.Truncate() },
			func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) },
		},
		"garbage": {
			func(s *simulator.Simulator) simulator.Effect { return s.Status(200, "<html>") },
			func(err error) bool { return errors.As(err, &syntax) },
		},
		"redirect": {
			func(s *simulator.Simulator) simulator.Effect {
				return simulator.Redirect(s.URL() + "/compute/v2.1/servers/x")
			},
			func(err error) bool { return status(err) == 404 },
		},
		"own handler": {
			func(*simulator.Simulator) simulator.Effect {
				return simulator.Handle(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
			},
			func(err error) bool { return status(err) == http.StatusTeapot },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaultTest(t)
			f.sim.Inject(simulator.Fault{Operation: simulator.OpServer, Match: f.isServer, Effect: test.effect(f.sim)})
			if err := f.getServer(t.Context()); err == nil || !test.is(err) {
				t.Errorf("got %T %v", err, err)
			}
			if f.sim.Count(simulator.Nova, simulator.OpServer) == 0 {
				t.Error("it is not in the log")
			}
		})
	}
}

func TestBodies(t *testing.T) {
	f := newFaultTest(t)
	f.sim.Inject(simulator.Fault{Times: 1, Effect: simulator.SlowBody(time.Microsecond)})
	if err := f.getServer(t.Context()); err != nil {
		t.Errorf("slow body: %v", err)
	}
	const size = 3 << 20
	f.sim.Inject(simulator.Fault{Times: 1, Effect: simulator.HugeBody(size)})
	response, err := httpClient(t, f.sim).Get(f.sim.URL() + "/network/v2.0/ports")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || len(text) != size || !json.Valid(text) {
		t.Errorf("huge body: %d bytes, %v", len(text), err)
	}
}

func TestEndlessPages(t *testing.T) {
	f := newFaultTest(t)
	f.sim.Inject(simulator.Fault{Operation: simulator.OpPorts, Effect: simulator.EndlessPages()})
	seen := map[string]bool{}
	err := ports.List(f.client.neutron, query("device_id="+f.server.ID)).EachPage(t.Context(),
		func(_ context.Context, page pagination.Page) (bool, error) {
			next, err := page.NextPageURL()
			if err != nil || seen[next] {
				return false, fmt.Errorf("next page %q again, %w", next, err)
			}
			seen[next] = true
			found, err := ports.ExtractPorts(page)
			if len(found) != 1 {
				return false, fmt.Errorf("page has %d ports, %w", len(found), err)
			}
			return len(seen) < 20, err
		})
	if err != nil || len(seen) != 20 {
		t.Errorf("read %d pages, %v", len(seen), err)
	}
}
