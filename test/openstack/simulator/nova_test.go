package simulator_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// serverStatus is Nova's, or empty when the server cannot be read.
func (c clients) serverStatus(t *testing.T, id string) string {
	t.Helper()
	server, err := servers.Get(t.Context(), c.nova, id).Extract()
	if err != nil {
		return ""
	}
	return server.Status
}

// addresses are written type:address.
func (c clients) addresses(t *testing.T, id string) map[string][]string {
	t.Helper()
	server, err := servers.Get(t.Context(), c.nova, id).Extract()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for network, list := range server.Addresses {
		for _, entry := range list.([]any) {
			entry := entry.(map[string]any)
			found[network] = append(found[network], entry["OS-EXT-IPS:type"].(string)+":"+entry["addr"].(string))
		}
	}
	return found
}

func (c clients) wantAddresses(t *testing.T, id string, want map[string][]string) {
	t.Helper()
	if got := c.addresses(t, id); !reflect.DeepEqual(got, want) {
		t.Errorf("Nova shows %v, want %v", got, want)
	}
}

func TestServer(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	made := project.AddServer("n1", func(s *simulator.Server) {
		s.Metadata["hostname"] = "free-text"
		s.AccessIPv4 = "198.51.100.1"
	})
	got, err := servers.Get(t.Context(), client.nova, made.ID).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != made.ID || got.Name != "n1" || got.TenantID != project.ID || got.Status != "ACTIVE" ||
		got.Metadata["hostname"] != "free-text" || got.AccessIPv4 != "198.51.100.1" || got.Created.Unix() != made.Created.Unix() {
		t.Errorf("got %+v", got)
	}
	for _, status := range []string{"BUILD", "SHUTOFF", "ERROR", "DELETED", "SOFT_DELETED", "REBOOT"} {
		sim.UpdateServer(made.ID, func(s *simulator.Server) { s.Status = status })
		if got := client.serverStatus(t, made.ID); got != status {
			t.Errorf("got status %q, want %s", got, status)
		}
	}
	stranger := connect(t, sim, sim.AddProject("other").AddApplicationCredential("approver"))
	sim.DeleteServer(sim.AddProject("third").AddServer("gone").ID)
	for name, try := range map[string]struct {
		clients
		id string
	}{"other project": {stranger, made.ID}, "unknown": {client, "00000000-0000-0000-0000-000000000000"}} {
		_, err := servers.Get(t.Context(), try.nova, try.id).Extract()
		if status(err) != 404 || !strings.Contains(err.Error(), "Instance "+try.id+" could not be found.") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	sim := start(t, simulator.Config{})
	project, other := sim.AddProject("demo"), sim.AddProject("other")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	server := project.AddServer("n1")
	dual := project.AddNetwork("dual")
	first := project.AddPort(server.ID, "10.0.0.5")
	project.AddPort(server.ID, "10.1.0.5", func(p *simulator.Port) {
		p.NetworkID = dual.ID
		p.Addresses = append(p.Addresses, "fd00::5")
	})
	floating := project.AddFloatingIP("203.0.113.5", first.ID)
	want := map[string][]string{
		"net":  {"fixed:10.0.0.5", "floating:203.0.113.5"},
		"dual": {"fixed:10.1.0.5", "fixed:fd00::5"},
	}
	client.wantAddresses(t, server.ID, want)

	// Nova's only filters for a port that names the server are the project and a compute owner.
	project.AddPort(server.ID, "10.0.0.66", func(p *simulator.Port) { p.DeviceOwner = "" })
	other.AddPort(server.ID, "10.0.0.67")
	client.wantAddresses(t, server.ID, want)
	project.AddPort(server.ID, "10.0.0.68", func(p *simulator.Port) { p.Status = "DOWN" })
	want["net"] = []string{"fixed:10.0.0.5", "fixed:10.0.0.68", "floating:203.0.113.5"}
	client.wantAddresses(t, server.ID, want)

	sim.FreezeAddresses(server.ID)
	sim.MoveFloatingIP(floating.ID, "")
	client.wantAddresses(t, server.ID, want)
	if found, err := client.floatingIPs(t.Context(), query("port_id="+first.ID)); err != nil || len(found) != 0 {
		t.Errorf("Neutron still has %v, %v", found, err)
	}
	sim.RefreshAddresses(server.ID)
	want["net"] = want["net"][:2]
	client.wantAddresses(t, server.ID, want)
}

func TestMicroversions(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	server := project.AddServer("n1")
	for version, want := range map[string]int{"": 200, "2.1": 200, "2.89": 200, "2.90": 200, "2.93": 200, "2.94": 406, "3.1": 406, "x": 400} {
		client.nova.Microversion = version
		got, err := servers.Get(t.Context(), client.nova, server.ID).Extract()
		if code := status(err); code != want && (want != 200 || err != nil) {
			t.Errorf("%q: got %v, want %d", version, err, want)
		}
		if err != nil {
			continue
		}
		if shown := version == "2.90" || version == "2.93"; (got.Hostname != nil) != shown {
			t.Errorf("%q: hostname %v", version, got.Hostname)
		}
	}
	header := http.Header{"X-Auth-Token": {client.nova.Token()}, "Openstack-Api-Version": {"compute latest"}}
	response, body := raw(t, sim, sim.URL()+"/compute/v2.1/servers/"+server.ID, header, nil)
	if body["server"].(object)["OS-EXT-SRV-ATTR:hostname"] != "n1" || response.Header.Get("OpenStack-API-Version") != "compute 2.93" {
		t.Errorf("latest: got %v %v", response.Header, body)
	}
}

func TestHostnames(t *testing.T) {
	project := start(t, simulator.Config{}).AddProject("demo")
	for name, want := range map[string]string{
		"n1": "n1", "My_Node 1.example": "my-node-1-example", "-.x.-": "x", "a?b\u4e16": "ab",
		strings.Repeat("a", 70): strings.Repeat("a", 63),
	} {
		if got := project.AddServer(name).Hostname; got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	if nameless := project.AddServer("??"); nameless.Hostname != "Server-"+nameless.ID {
		t.Errorf("got %q", nameless.Hostname)
	}
}

func TestCellDown(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	server := project.AddServer("n1", func(s *simulator.Server) { s.CellDown = true })
	if _, err := servers.Get(t.Context(), client.nova, server.ID).Extract(); status(err) != 500 {
		t.Errorf("without a microversion: got %v", err)
	}
	client.nova.Microversion = "2.69"
	got, err := servers.Get(t.Context(), client.nova, server.ID).Extract()
	if err != nil || got.Status != "UNKNOWN" || got.Name != "" || got.Addresses != nil || got.TenantID != project.ID {
		t.Errorf("got %+v, %v", got, err)
	}
}
