package openstack

import (
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// TestMemoryOfAnAnswer: what an invented cloud answers costs the approver of all clusters little
// (A16). The largest answers that are read have many empty things in them.
func TestMemoryOfAnAnswer(t *testing.T) {
	const most = 200 << 20
	for _, c := range []struct {
		operation        simulator.Operation
		head, unit, tail string
	}{
		{simulator.OpToken, `{"token":{"catalog":[`, `{}`, `]}}`},
		{simulator.OpToken, `{"token":{"catalog":[{"endpoints":[`, `{}`, `]}]}}`},
		{simulator.OpServer, `{"server":{"x":[`, `{}`, `]}}`},
		{simulator.OpPorts, `{"ports":[`, `{}`, `]}`},
		{simulator.OpPorts, `{"ports":[{"fixed_ips":[`, `{}`, `]}]}`},
		{simulator.OpFloatingIPs, `{"floatingips":[`, `{}`, `]}`},
		{simulator.OpFloatingIPs, `{"floatingips":[],"floatingips_links":[`, `{}`, `]}`},
	} {
		t.Run(string(c.operation)+" "+c.head, func(t *testing.T) {
			f := start(t)
			body := c.head + strings.Repeat(c.unit+",", (maxBody-100)/(len(c.unit)+1)) + c.unit + c.tail
			f.sim.Inject(simulator.Fault{Operation: c.operation, Effect: simulator.Handle(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if c.operation == simulator.OpToken {
					w.WriteHeader(http.StatusCreated)
				}
				_, _ = w.Write([]byte(body))
			})})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = f.ask(t.Context(), "192.0.2.1")
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > most {
				t.Errorf("%d MiB for an answer of %d KiB", used>>20, len(body)>>10)
			}
		})
	}
}

func TestRowsAreBounded(t *testing.T) {
	for _, maxPage := range []int{0, 100} {
		t.Run(fmt.Sprintf("pages of %d", maxPage), func(t *testing.T) {
			f := start(t, simulator.Config{MaxPage: maxPage})
			addr := netip.MustParseAddr("10.1.0.0")
			for range 600 {
				addr = addr.Next()
				f.project.AddPort(f.server.ID, addr.String())
			}
			if got := len(f.holdings(t)); got != 601 {
				t.Errorf("got %d addresses", got)
			}
			for range maxRows - 600 {
				addr = addr.Next()
				f.project.AddPort(f.server.ID, addr.String())
			}
			_, err := f.ask(t.Context()) // nothing is wanted, so no other list is asked for
			f.checkProblem(t, err, reason.CloudAnswerInvalid)
		})
	}
}

// TestManySubports: a URL with all of their IDs would be longer than many web servers take.
func TestManySubports(t *testing.T) {
	f := start(t)
	var ids []string
	addr := netip.MustParseAddr("10.7.0.0")
	for range 350 {
		addr = addr.Next()
		ids = append(ids, f.project.AddPort("", addr.String()).ID)
	}
	f.sim.AddTrunk(f.port.ID, ids...)
	f.project.AddFloatingIP("203.0.113.5", ids[349])
	if got := f.holdings(t, "203.0.113.5"); len(got) != 352 {
		t.Errorf("got %d addresses", len(got))
	}
	f.wantCalls(t, map[simulator.Operation]int{
		simulator.OpToken: 1, simulator.OpServer: 1, simulator.OpPorts: 1 + 4, simulator.OpFloatingIPs: 4,
	})
	for _, r := range f.sim.Requests() {
		if length := len(r.Path) + len(r.Query.Encode()); length > 8000 {
			t.Errorf("a URL of %d bytes for %s", length, r.Path)
		}
	}

	for range maxRows {
		addr = addr.Next()
		ids = append(ids, f.project.AddPort("", addr.String()).ID)
	}
	f.sim.AddTrunk(f.port.ID, ids...)
	f.wantProblem(t, reason.CloudAnswerInvalid)
}

// TestNoAddressesNoQuestion: without a port to ask for, Neutron would list all that the project has.
func TestNoAddressesNoQuestion(t *testing.T) {
	f := start(t)
	f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.Addresses = nil })
	f.wantHoldings(t, []string{"203.0.113.5"})
	f.wantCalls(t, map[simulator.Operation]int{simulator.OpToken: 1, simulator.OpServer: 1, simulator.OpPorts: 1})
}

// TestBodiesAreBounded: what is right in all but its size is not read.
func TestBodiesAreBounded(t *testing.T) {
	f := start(t)
	body := func(size int) {
		f.sim.ClearFaults()
		head := fmt.Sprintf(`{"server":{"id":%q,"status":"ACTIVE","tenant_id":%q},"x":"`, f.server.ID, f.project.ID)
		text := head + strings.Repeat("x", size-len(head)-2) + `"}`
		f.sim.Inject(simulator.Fault{Operation: simulator.OpServer, Effect: simulator.Handle(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		})})
	}
	body(maxBody)
	f.wantHoldings(t, nil, s1)
	body(maxBody + 1)
	f.wantProblem(t, reason.CloudAnswerInvalid)
}

// TestManyHeaders: the bound of the body is not all.
func TestManyHeaders(t *testing.T) {
	f := start(t)
	f.sim.Inject(simulator.Fault{Operation: simulator.OpServer, Effect: simulator.Handle(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 2 * maxHeader / 100 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
		}
	})})
	f.wantProblem(t, reason.CloudUnavailable)
}

// TestPortsOfOtherServers: the filter is the cloud's word. Some databases ignore case in it, and
// anybody in the project can write a port's device_id in upper case.
func TestPortsOfOtherServers(t *testing.T) {
	f := start(t)
	f.project.AddPort(strings.ToUpper(f.server.ID), "10.0.0.6")
	f.wantHoldings(t, nil, s1)

	other := f.project.AddServer("n2")
	f.sim.Inject(replaceIn(simulator.OpPorts, f.server.ID, other.ID))
	f.wantProblem(t, reason.PortsMissing)
}

// TestLinks: a list that cannot be followed to its end is not taken for a whole one.
func TestLinks(t *testing.T) {
	for name, c := range map[string]struct{ links, want string }{
		"none":                 {``, ""},
		"null":                 {`null`, ""},
		"an empty list":        {`[]`, ""},
		"the page before":      {`[{"rel":"previous","href":"https://h/ports?marker=1"}]`, ""},
		"the next page":        {`[{"rel":"previous","href":"https://h/ports?marker=1"},{"rel":"next","href":"http://other/x?a=1&marker=2"}]`, "a=1&marker=2"},
		"without a query":      {`[{"rel":"next","href":"https://h/ports"}]`, "error"},
		"without a target":     {`[{"rel":"next"}]`, "error"},
		"a target that is bad": {`[{"rel":"next","href":"https://h/%zz?marker=1"}]`, "error"},
		"text":                 {`"` + canary + `"`, "error"},
		"an object":            {`{"next":"https://h/?marker=1"}`, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nextPage([]byte(c.links))
			if (err != nil) != (c.want == "error") || (err == nil && got != c.want) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
