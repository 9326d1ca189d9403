package openstack

import (
	"slices"
	"testing"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// S1 has 10.0.0.5 on an ACTIVE port that nobody recorded.
const s1 = "10.0.0.5 fixed"

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		name   string
		setup  func(f *fixture)
		wanted []string
		want   []string
		// floatingIPs is how often Neutron was asked for them.
		floatingIPs int
	}{
		{"one fixed address", func(*fixture) {}, []string{"10.0.0.5"}, []string{s1}, 0},
		{"nothing wanted", func(*fixture) {}, nil, []string{s1}, 0},
		{"E27 dual stack on one port", func(f *fixture) {
			f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.Addresses = append(p.Addresses, "2001:db8::5") })
		}, []string{"10.0.0.5", "2001:db8::5"}, []string{s1, "2001:db8::5 fixed"}, 0},
		{"E27 dual stack on two ports", func(f *fixture) { f.project.AddPort(f.server.ID, "2001:db8::5") },
			[]string{"2001:db8::5", "10.0.0.5"}, []string{s1, "2001:db8::5 fixed"}, 0},
		{"E32 one of three", func(f *fixture) {
			f.project.AddPort(f.server.ID, "10.0.0.7")
			f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.Addresses = append(p.Addresses, "10.0.0.6") })
		}, []string{"10.0.0.5"}, []string{s1, "10.0.0.6 fixed", "10.0.0.7 fixed"}, 0},
		{"E33 two networks", func(f *fixture) {
			network := f.project.AddNetwork("second")
			f.project.AddPort(f.server.ID, "10.9.0.5", func(p *simulator.Port) { p.NetworkID = network.ID })
		}, []string{"10.0.0.5", "10.9.0.5"}, []string{s1, "10.9.0.5 fixed"}, 0},
		{"A24 the same range on two networks", func(f *fixture) {
			network := f.project.AddNetwork("overlapping")
			f.project.AddPort(f.server.ID, "10.0.0.6", func(p *simulator.Port) { p.NetworkID = network.ID })
			other := f.project.AddServer("n2")
			f.project.AddPort(other.ID, "10.0.0.6")
		}, []string{"10.0.0.6"}, []string{s1, "10.0.0.6 fixed"}, 0},
		{"E34 a floating IP", func(f *fixture) { f.project.AddFloatingIP("203.0.113.5", f.port.ID) },
			[]string{"10.0.0.5", "203.0.113.5"}, []string{s1, "203.0.113.5 floating"}, 1},
		{"E34 a floating IP alone", func(f *fixture) { f.project.AddFloatingIP("203.0.113.5", f.port.ID) },
			[]string{"203.0.113.5"}, []string{s1, "203.0.113.5 floating"}, 1},
		{"E34 floating IPs of two ports", func(f *fixture) {
			second := f.project.AddPort(f.server.ID, "10.0.0.6")
			f.project.AddFloatingIP("203.0.113.5", f.port.ID)
			f.project.AddFloatingIP("203.0.113.6", second.ID)
			f.project.AddFloatingIP("203.0.113.7", f.project.AddPort("", "10.0.0.7").ID)
		}, []string{"203.0.113.6"}, []string{s1, "10.0.0.6 fixed", "203.0.113.5 floating", "203.0.113.6 floating"}, 1},
		{"a floating IP that nobody wants is not asked for", func(f *fixture) { f.project.AddFloatingIP("203.0.113.5", f.port.ID) },
			[]string{"10.0.0.5"}, []string{s1}, 0},
		{"a floating IP that is down", func(f *fixture) {
			f.project.AddFloatingIP("203.0.113.5", f.port.ID, func(i *simulator.FloatingIP) { i.Status = "DOWN" })
		}, []string{"203.0.113.5"}, []string{s1, "203.0.113.5 floating"}, 1},
		{"E37 a free floating IP", func(f *fixture) { f.project.AddFloatingIP("203.0.113.5", "") },
			[]string{"203.0.113.5"}, []string{s1}, 1},
		{"E37 another server's floating IP", func(f *fixture) {
			other := f.project.AddPort(f.project.AddServer("n2").ID, "10.0.0.6")
			f.project.AddFloatingIP("203.0.113.5", other.ID)
		}, []string{"203.0.113.5"}, []string{s1}, 1},
		{"E26 IPv6 in another spelling", func(f *fixture) { f.project.AddPort(f.server.ID, "2001:DB8:0:0:0:0:0:5") },
			[]string{"2001:db8::5"}, []string{s1, "2001:db8::5 fixed"}, 0},
		{"E26 IPv4 written as IPv6", func(f *fixture) { f.project.AddPort(f.server.ID, "::ffff:10.0.0.6") },
			[]string{"10.0.0.6"}, []string{s1, "10.0.0.6 fixed"}, 0},
		{"E26 an embedded IPv4 is another address", func(f *fixture) { f.project.AddPort(f.server.ID, "64:ff9b::a00:6") },
			[]string{"10.0.0.6"}, []string{s1, "64:ff9b::a00:6 fixed"}, 1},
		{"E41 A27 allowed address pairs", func(f *fixture) {
			f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.AllowedAddressPairs = []string{"10.0.0.6", "0.0.0.0/0"} })
		}, []string{"10.0.0.6"}, []string{s1}, 1},
		{"A26 access addresses", func(f *fixture) {
			f.sim.UpdateServer(f.server.ID, func(s *simulator.Server) { s.AccessIPv4, s.AccessIPv6 = "10.0.0.6", "2001:db8::6" })
		}, []string{"10.0.0.6", "2001:db8::6"}, []string{s1}, 1},
		{"A25 names and metadata", func(f *fixture) {
			f.sim.UpdateServer(f.server.ID, func(s *simulator.Server) {
				s.Name, s.Hostname, s.Metadata = "n2", "n2", map[string]string{"hostname": "10.0.0.6"}
			})
			f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.Name, p.DNSName = "10.0.0.6", "n2" })
		}, []string{"10.0.0.6"}, []string{s1}, 1},
		{"E43 Nova's name in another case", func(f *fixture) {
			f.sim.UpdateServer(f.server.ID, func(s *simulator.Server) { s.Name = "N1" })
		}, []string{"10.0.0.5"}, []string{s1}, 0},
		{"Nova's list of addresses is behind", func(f *fixture) {
			f.sim.FreezeAddresses(f.server.ID)
			f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.Addresses = []string{"10.0.0.8"} })
		}, []string{"10.0.0.8"}, []string{"10.0.0.8 fixed"}, 0},
		{"a port without an address", func(f *fixture) { f.project.AddPort(f.server.ID, "") },
			[]string{"10.0.0.5"}, []string{s1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			c.setup(f)
			f.wantHoldings(t, c.wanted, c.want...)
			f.wantCalls(t, map[simulator.Operation]int{
				simulator.OpToken: 1, simulator.OpServer: 1, simulator.OpPorts: 1, simulator.OpFloatingIPs: c.floatingIPs,
			})
		})
	}
}

func TestPages(t *testing.T) {
	f := start(t, simulator.Config{MaxPage: 2})
	want := []string{s1}
	for _, addr := range []string{"10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9"} {
		port := f.project.AddPort(f.server.ID, addr)
		f.project.AddFloatingIP("203.0.113"+addr[len("10.0.0"):], port.ID)
		want = append(want, addr+" fixed", "203.0.113"+addr[len("10.0.0"):]+" floating")
	}
	slices.Sort(want)
	f.wantHoldings(t, []string{"203.0.113.9"}, want...)
	f.wantCalls(t, map[simulator.Operation]int{
		simulator.OpToken: 1, simulator.OpServer: 1, simulator.OpPorts: 3, simulator.OpFloatingIPs: 3,
	})
}

// A06: no answer outlives the verdict it was read for.
func TestEachVerdictAsksAnew(t *testing.T) {
	f := start(t)
	fixed, both := []string{"10.0.0.5"}, []string{"10.0.0.5", "203.0.113.5"}

	f.wantHoldings(t, both, s1)
	fip := f.project.AddFloatingIP("203.0.113.5", f.port.ID)
	f.wantHoldings(t, both, s1, "203.0.113.5 floating") // E35

	other := f.project.AddPort(f.project.AddServer("n2").ID, "10.0.0.6")
	f.sim.MoveFloatingIP(fip.ID, other.ID)
	f.wantHoldings(t, both, s1) // A06
	f.sim.MoveFloatingIP(fip.ID, f.port.ID)
	f.wantHoldings(t, both, s1, "203.0.113.5 floating")
	f.sim.MoveFloatingIP(fip.ID, "")
	f.wantHoldings(t, both, s1) // E37

	f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.Addresses = []string{"10.0.0.7"} })
	f.wantHoldings(t, fixed, "10.0.0.7 fixed")
	f.sim.UpdatePort(f.port.ID, func(p *simulator.Port) { p.Status = "DOWN" })
	f.wantHoldings(t, fixed, "10.0.0.7 fixed inactive")
	f.wantCalls(t, map[simulator.Operation]int{
		simulator.OpToken: 1, simulator.OpServer: 7, simulator.OpPorts: 7, simulator.OpFloatingIPs: 7,
	})

	f.sim.DeletePort(f.port.ID)
	f.wantProblem(t, reason.PortsMissing)
	f.sim.DeleteServer(f.server.ID)
	f.wantProblem(t, reason.ServerNotFound)
}

func TestIdleAsksNothing(t *testing.T) {
	f := start(t, simulator.Config{TokenLifetime: 100 * time.Millisecond})
	f.wantHoldings(t, nil, s1)
	f.sim.ResetRequests()
	time.Sleep(300 * time.Millisecond) // the token ends meanwhile
	f.wantCalls(t, nil)
}

func TestRequestsAreNamed(t *testing.T) {
	f := start(t)
	f.project.AddFloatingIP("203.0.113.5", f.port.ID)
	f.holdings(t, "203.0.113.5")
	for _, r := range f.sim.Requests() {
		if len(r.UserAgent) < len(userAgent) || r.UserAgent[:len(userAgent)] != userAgent {
			t.Errorf("%s %s: User-Agent is %q", r.Method, r.Path, r.UserAgent)
		}
		if r.Microversion != "" {
			t.Errorf("%s %s: microversion %s", r.Method, r.Path, r.Microversion)
		}
	}
}

func TestServerStates(t *testing.T) {
	status := func(text string) func(*fixture) {
		return func(f *fixture) { f.sim.UpdateServer(f.server.ID, func(s *simulator.Server) { s.Status = text }) }
	}
	for _, c := range []struct {
		name  string
		setup func(f *fixture)
		want  reason.Reason
	}{
		{"ACTIVE", status("ACTIVE"), ""},
		{"BUILD", status("BUILD"), ""},
		{"SHUTOFF", status("SHUTOFF"), ""},
		{"ERROR", status("ERROR"), ""},
		{"SHELVED_OFFLOADED", status("SHELVED_OFFLOADED"), ""},
		{"DELETED", status("DELETED"), reason.ServerDeleted},
		{"SOFT_DELETED", status("SOFT_DELETED"), reason.ServerDeleted},
		{"UNKNOWN", status("UNKNOWN"), reason.CloudUnavailable},
		{"a cell is down", func(f *fixture) {
			f.sim.UpdateServer(f.server.ID, func(s *simulator.Server) { s.CellDown = true })
		}, reason.CloudUnavailable},
		{"E68 no such server", func(f *fixture) { f.sim.DeleteServer(f.server.ID) }, reason.ServerNotFound},
		{"A22 a server of a project that the credential is not for", func(f *fixture) {
			other := f.sim.AddProject("other").ID
			f.sim.UpdateServer(f.server.ID, func(s *simulator.Server) { s.ProjectID = other })
		}, reason.ServerNotFound},
		{"A22 an administrator sees another project's server", func(f *fixture) {
			f.sim.Inject(replaceIn(simulator.OpServer, f.project.ID, f.sim.AddProject("other").ID))
		}, reason.ServerOtherProject},
		{"the answer is about another server", func(f *fixture) {
			f.sim.Inject(replaceIn(simulator.OpServer, f.server.ID, f.project.AddServer("n2").ID))
		}, reason.CloudAnswerInvalid},
		{"no ports", func(f *fixture) { f.sim.DeletePort(f.port.ID) }, reason.PortsMissing},
		{"another region's server", func(f *fixture) {
			f.owner.ProviderID = "openstack://two/" + f.server.ID
		}, reason.ProviderIDMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			c.setup(f)
			if c.want == "" {
				f.wantHoldings(t, []string{"10.0.0.5"}, s1)
				return
			}
			f.wantProblem(t, c.want)
		})
	}
}
