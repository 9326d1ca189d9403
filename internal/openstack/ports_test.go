package openstack

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// replaceIn changes a text in true answers.
func replaceIn(op simulator.Operation, old, text string) simulator.Fault {
	return simulator.Fault{Operation: op, Effect: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		for key, values := range recorded.Header() {
			w.Header()[key] = values
		}
		body := bytes.ReplaceAll(recorded.Body.Bytes(), []byte(old), []byte(text))
		w.Header().Del("Content-Length")
		w.WriteHeader(recorded.Code)
		_, _ = io.Copy(w, bytes.NewReader(body))
	}}
}

// TestPortsThatCount is decision 2 of the threat model: the project of the port, and either the
// provider's record or ACTIVE. Nothing else has a say.
func TestPortsThatCount(t *testing.T) {
	down := func(p *simulator.Port) { p.Status = "DOWN" }
	recordedByServer := func(f *fixture, ids ...string) {
		f.objects.put(object("OpenStackServer", "n1", resources(f.server.ID, ids...)))
	}
	recordedByMachine := func(f *fixture, ids ...string) {
		f.owner.Infrastructure.Object["status"] = resources(f.server.ID, ids...)["status"]
	}
	for _, c := range []struct {
		name  string
		setup func(f *fixture)
		want  []string
	}{
		{"A30 DOWN, not the provider's", func(f *fixture) {
			f.project.AddPort(f.server.ID, "10.0.0.6", down)
		}, []string{s1, "10.0.0.6 fixed inactive"}},
		{"A30 BUILD and ERROR, not the provider's", func(f *fixture) {
			f.project.AddPort(f.server.ID, "10.0.0.6", func(p *simulator.Port) { p.Status = "BUILD" })
			f.project.AddPort(f.server.ID, "10.0.0.7", func(p *simulator.Port) { p.Status = "ERROR" })
			f.project.AddPort(f.server.ID, "10.0.0.8", func(p *simulator.Port) { p.Status = "" })
		}, []string{s1, "10.0.0.6 fixed inactive", "10.0.0.7 fixed inactive", "10.0.0.8 fixed inactive"}},
		{"A30 any device_owner, DOWN", func(f *fixture) {
			for i, who := range []string{"compute:nova", "compute:az2", "network:dhcp", "", "baremetal:none"} {
				f.project.AddPort(f.server.ID, "10.0.1."+string(rune('1'+i)), down, func(p *simulator.Port) { p.DeviceOwner = who })
			}
		}, []string{s1, "10.0.1.1 fixed inactive", "10.0.1.2 fixed inactive", "10.0.1.3 fixed inactive",
			"10.0.1.4 fixed inactive", "10.0.1.5 fixed inactive"}},
		{"A30 any device_owner, ACTIVE", func(f *fixture) {
			for i, who := range []string{"network:dhcp", "", "compute:x"} {
				f.project.AddPort(f.server.ID, "10.0.1."+string(rune('1'+i)), func(p *simulator.Port) { p.DeviceOwner = who })
			}
		}, []string{s1, "10.0.1.1 fixed", "10.0.1.2 fixed", "10.0.1.3 fixed"}},
		{"A30 with the MAC of the server's own port", func(f *fixture) {
			f.project.AddPort(f.server.ID, "10.0.0.6", down, func(p *simulator.Port) { p.MAC = f.port.MAC })
		}, []string{s1, "10.0.0.6 fixed inactive"}},
		{"recorded by OpenStackServer, ACTIVE", func(f *fixture) { recordedByServer(f, f.port.ID) },
			[]string{s1 + " provisioned"}},
		{"recorded by OpenStackServer, DOWN", func(f *fixture) {
			recordedByServer(f, f.project.AddPort(f.server.ID, "10.0.0.6", down).ID)
		}, []string{s1, "10.0.0.6 fixed provisioned"}},
		{"recorded by OpenStackMachine, DOWN", func(f *fixture) {
			recordedByMachine(f, f.project.AddPort(f.server.ID, "10.0.0.6", down).ID)
		}, []string{s1, "10.0.0.6 fixed provisioned"}},
		{"OpenStackServer has a record, so OpenStackMachine's is not read", func(f *fixture) {
			recordedByServer(f, f.port.ID)
			recordedByMachine(f, f.project.AddPort(f.server.ID, "10.0.0.6", down).ID)
		}, []string{s1 + " provisioned", "10.0.0.6 fixed inactive"}},
		{"OpenStackServer has no record, so OpenStackMachine's is read", func(f *fixture) {
			recordedByServer(f)
			recordedByMachine(f, f.port.ID)
		}, []string{s1 + " provisioned"}},
		{"a record of a port that is not there", func(f *fixture) { recordedByServer(f, "11111111-1111-4111-8111-111111111111") },
			[]string{s1}},
		{"a recorded port that was detached", func(f *fixture) {
			recordedByServer(f, f.project.AddPort("", "10.0.0.6").ID)
		}, []string{s1}},
		{"A30 another project's port on a shared network", func(f *fixture) {
			network := f.project.AddNetwork("shared")
			f.sim.AddProject("other").AddPort(f.server.ID, "10.0.0.6", func(p *simulator.Port) { p.NetworkID = network.ID })
		}, []string{s1, "10.0.0.6 fixed inactive"}},
		{"A30 another project's port, recorded", func(f *fixture) {
			network := f.project.AddNetwork("shared")
			recordedByServer(f, f.sim.AddProject("other").AddPort(f.server.ID, "10.0.0.6", func(p *simulator.Port) { p.NetworkID = network.ID }).ID)
		}, []string{s1, "10.0.0.6 fixed inactive"}},
		{"A30 another project's port that is not visible", func(f *fixture) {
			f.sim.AddProject("other").AddPort(f.server.ID, "10.0.0.6")
		}, []string{s1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			c.setup(f)
			f.wantHoldings(t, nil, c.want...)
		})
	}
}

// TestFloatingIPsFollowTheirPort: one proves as much as the port that it leads to.
func TestFloatingIPsFollowTheirPort(t *testing.T) {
	f := start(t)
	down := f.project.AddPort(f.server.ID, "10.0.0.6", func(p *simulator.Port) { p.Status = "DOWN" })
	f.project.AddFloatingIP("203.0.113.5", f.port.ID)
	f.project.AddFloatingIP("203.0.113.6", down.ID)
	f.wantHoldings(t, []string{"203.0.113.6"}, s1, "10.0.0.6 fixed inactive", "203.0.113.5 floating", "203.0.113.6 floating inactive")

	f.objects.put(object("OpenStackServer", "n1", resources("", down.ID)))
	f.wantHoldings(t, []string{"203.0.113.6"}, s1, "10.0.0.6 fixed provisioned", "203.0.113.5 floating", "203.0.113.6 floating provisioned")
}

// TestFloatingIPsOfOtherPorts: the filter is the cloud's word; the port's ID is looked at again.
func TestFloatingIPsOfOtherPorts(t *testing.T) {
	f := start(t)
	other := f.project.AddPort(f.project.AddServer("n2").ID, "10.0.0.6")
	f.project.AddFloatingIP("203.0.113.5", f.port.ID)
	f.sim.Inject(replaceIn(simulator.OpFloatingIPs, f.port.ID, other.ID))
	f.wantHoldings(t, []string{"203.0.113.5"}, s1)
}

func TestInactiveIsExplained(t *testing.T) {
	f := start(t)
	network := f.project.AddNetwork("shared")
	f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.Status = "DOWN" })
	f.sim.AddProject("other").AddPort(f.server.ID, "10.0.0.6", func(p *simulator.Port) { p.NetworkID = network.ID })
	evidence, err := f.ask(t.Context())
	if err != nil || len(evidence.Holdings) != 2 {
		t.Fatalf("got %v, %v", evidence, err)
	}
	for _, h := range evidence.Holdings {
		want := "DOWN"
		if h.Address.String() == "10.0.0.6" {
			want = "another project"
		}
		if !strings.Contains(h.Inactive, want) {
			t.Errorf("%s: %q does not tell %q", h.Address, h.Inactive, want)
		}
	}
}

func TestAddressesThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"10.0.0.5/24", "010.0.0.5", "fe80::1%eth0", "", canary} {
		t.Run(text, func(t *testing.T) {
			f := start(t)
			f.project.AddPort(f.server.ID, "10.0.0.6", func(p *simulator.Port) { p.Addresses = []string{text} })
			f.wantProblem(t, reason.CloudAnswerInvalid)
		})
		t.Run("floating "+text, func(t *testing.T) {
			f := start(t)
			f.project.AddFloatingIP(text, f.port.ID)
			f.wantProblem(t, reason.CloudAnswerInvalid)
		})
	}
}

// A30: a member of the project makes a port with the address of the server's floating IP, which says
// that it is the server's. It does not count, and it does not keep the floating IP from counting.
func TestTrapForAFloatingIP(t *testing.T) {
	f := start(t)
	f.project.AddFloatingIP("203.0.113.5", f.port.ID)
	f.project.AddPort(f.server.ID, "203.0.113.5", func(p *simulator.Port) { p.Status = "DOWN" })
	f.wantHoldings(t, []string{"203.0.113.5"}, s1, "203.0.113.5 fixed inactive", "203.0.113.5 floating")
}
