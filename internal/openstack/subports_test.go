package openstack

import (
	"net/http"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// subport is the address of the trunk's subport in these tests (E39).
const subport = "10.7.0.5"

// trunk gives the server's port a subport.
func (f *fixture) trunk(changes ...func(*simulator.Port)) simulator.Port {
	sub := f.project.AddPort("", subport)
	f.sim.AddTrunk(f.port.ID, sub.ID)
	for _, change := range changes {
		f.sim.UpdatePort(sub.ID, change)
	}
	return sub
}

func (f *fixture) setParent(change func(*simulator.Port)) { f.sim.UpdatePort(f.port.ID, change) }

// record writes the ports that the provider made.
func (f *fixture) record(ids ...string) {
	f.objects.put(object("OpenStackServer", "n1", resources(f.server.ID, ids...)))
}

func TestSubports(t *testing.T) {
	for _, c := range []struct {
		name   string
		setup  func(f *fixture)
		wanted []string
		want   []string
		// ports and floatingIPs are how often Neutron is asked for them.
		ports, floatingIPs int
	}{
		{"E39 ACTIVE", func(f *fixture) { f.trunk() }, []string{subport}, []string{s1, subport + " subport"}, 2, 0},
		{"E39 beside a fixed address", func(f *fixture) { f.trunk() }, []string{"10.0.0.5", subport}, []string{s1, subport + " subport"}, 2, 0},
		{"E39 not asked for when fixed addresses explain all", func(f *fixture) { f.trunk() }, []string{"10.0.0.5"}, []string{s1}, 1, 0},
		{"E39 not asked for when nothing is wanted", func(f *fixture) { f.trunk() }, nil, []string{s1}, 1, 0},
		{"E39 DOWN", func(f *fixture) {
			f.trunk(func(p *simulator.Port) { p.Status = "DOWN" })
		}, []string{subport}, []string{s1, subport + " subport inactive"}, 2, 1},
		{"E39 DOWN, recorded: an intention is no proof", func(f *fixture) {
			f.record(f.trunk(func(p *simulator.Port) { p.Status = "DOWN" }).ID)
		}, []string{subport}, []string{s1, subport + " subport inactive"}, 2, 1},
		{"E39 ACTIVE, recorded", func(f *fixture) {
			f.record(f.trunk().ID)
		}, []string{subport}, []string{s1, subport + " subport provisioned"}, 2, 0},
		{"A30 of another project", func(f *fixture) {
			other := f.sim.AddProject("other").ID
			network := f.project.AddNetwork("shared").ID
			f.trunk(func(p *simulator.Port) { p.ProjectID, p.NetworkID = other, network })
		}, []string{subport}, []string{s1, subport + " subport inactive"}, 2, 1},
		{"A30 of another project, recorded", func(f *fixture) {
			other := f.sim.AddProject("other").ID
			network := f.project.AddNetwork("shared").ID
			f.record(f.trunk(func(p *simulator.Port) { p.ProjectID, p.NetworkID = other, network }).ID)
		}, []string{subport}, []string{s1, subport + " subport inactive"}, 2, 1},
		{"A30 the parent is DOWN", func(f *fixture) {
			f.trunk()
			f.setParent(func(p *simulator.Port) { p.Status = "DOWN" })
		}, []string{subport}, []string{s1 + " inactive", subport + " subport inactive"}, 2, 1},
		{"A30 the parent is of another project", func(f *fixture) {
			f.trunk()
			other := f.sim.AddProject("other").ID
			network := f.project.AddNetwork("shared").ID
			f.setParent(func(p *simulator.Port) { p.ProjectID, p.NetworkID = other, network })
		}, []string{subport}, []string{s1 + " inactive", subport + " subport inactive"}, 2, 1},
		{"E39 the parent is DOWN and the provider's", func(f *fixture) {
			f.trunk()
			f.setParent(func(p *simulator.Port) { p.Status = "DOWN" })
			f.record(f.port.ID)
		}, []string{subport}, []string{s1 + " provisioned", subport + " subport"}, 2, 0},
		{"E39 of a second port's trunk", func(f *fixture) {
			second := f.project.AddPort(f.server.ID, "10.0.0.6")
			f.sim.AddTrunk(second.ID, f.project.AddPort("", subport).ID)
		}, []string{subport}, []string{s1, "10.0.0.6 fixed", subport + " subport"}, 2, 0},
		{"E39 of two trunks, one of which does not count", func(f *fixture) {
			f.trunk()
			second := f.project.AddPort(f.server.ID, "10.0.0.6", func(p *simulator.Port) { p.Status = "DOWN" })
			f.sim.AddTrunk(second.ID, f.project.AddPort("", "10.7.0.6").ID)
		}, []string{"10.7.0.6"}, []string{s1, "10.0.0.6 fixed inactive", subport + " subport", "10.7.0.6 subport inactive"}, 2, 1},
		{"E39 of another server's trunk", func(f *fixture) {
			other := f.project.AddPort(f.project.AddServer("n2").ID, "10.0.0.6")
			f.sim.AddTrunk(other.ID, f.project.AddPort("", subport).ID)
		}, []string{subport}, []string{s1}, 1, 1},
		{"E39 a trunk without subports", func(f *fixture) { f.sim.AddTrunk(f.port.ID) }, []string{subport}, []string{s1}, 1, 1},
		{"E39 device_owner alone makes no subport", func(f *fixture) {
			f.project.AddPort("", subport, func(p *simulator.Port) { p.DeviceOwner, p.Status = "trunk:subport", "ACTIVE" })
		}, []string{subport}, []string{s1}, 1, 1},
		{"E34 a floating IP on the parent", func(f *fixture) {
			f.trunk()
			f.project.AddFloatingIP("203.0.113.5", f.port.ID)
		}, []string{"203.0.113.5"}, []string{s1, subport + " subport", "203.0.113.5 floating"}, 2, 1},
		{"E39 a floating IP on a subport", func(f *fixture) { f.project.AddFloatingIP("203.0.113.5", f.trunk().ID) },
			[]string{"203.0.113.5"}, []string{s1, subport + " subport", "203.0.113.5 floating"}, 2, 1},
		{"E39 a floating IP on a subport that does not count", func(f *fixture) {
			f.project.AddFloatingIP("203.0.113.5", f.trunk(func(p *simulator.Port) { p.Status = "DOWN" }).ID)
		}, []string{"203.0.113.5"}, []string{s1, subport + " subport inactive", "203.0.113.5 floating inactive"}, 2, 1},
		{"neither explains it", func(f *fixture) { f.trunk() }, []string{"192.0.2.1"}, []string{s1, subport + " subport"}, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			c.setup(f)
			f.wantHoldings(t, c.wanted, c.want...)
			f.wantCalls(t, map[simulator.Operation]int{
				simulator.OpToken: 1, simulator.OpServer: 1, simulator.OpPorts: c.ports, simulator.OpFloatingIPs: c.floatingIPs,
			})
		})
	}
}

// subportCalls matches the second question for ports.
func subportCalls(r *http.Request) bool { return r.URL.Query().Has("id") }

// TestSubportsNotAskedFor: the filter is the cloud's word.
func TestSubportsNotAskedFor(t *testing.T) {
	f := start(t)
	sub := f.trunk()
	other := f.project.AddPort("", "10.0.0.6", func(p *simulator.Port) { p.Status = "ACTIVE" })
	fault := replaceIn(simulator.OpPorts, sub.ID, other.ID)
	fault.Match = subportCalls
	f.sim.Inject(fault)
	f.wantHoldings(t, []string{subport}, s1)
}

func TestSubportFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		effect simulator.Effect
		want   reason.Reason
	}{
		{"E59 503", (&simulator.Simulator{}).Status(503, canary), reason.CloudUnavailable},
		{"403", (&simulator.Simulator{}).Status(403, canary), reason.CloudForbidden},
		{"404", (&simulator.Simulator{}).Status(404, canary), reason.CloudAnswerInvalid},
		{"no list", (&simulator.Simulator{}).Status(200, `{}`), reason.CloudAnswerInvalid},
		{"endless pages", simulator.EndlessPages(), reason.CloudAnswerInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			f.trunk()
			f.sim.Inject(simulator.Fault{Operation: simulator.OpPorts, Match: subportCalls, Effect: c.effect})
			f.wantProblem(t, c.want)
		})
	}
	t.Run("an address that cannot be read", func(t *testing.T) {
		f := start(t)
		f.trunk(func(p *simulator.Port) { p.Addresses = []string{canary} })
		f.wantProblem(t, reason.CloudAnswerInvalid)
	})
	t.Run("E39 a subport that is gone", func(t *testing.T) {
		f := start(t)
		f.sim.Inject(replaceIn(simulator.OpPorts, f.trunk().ID, otherUUID))
		f.wantHoldings(t, []string{subport}, s1)
	})
}
