package simulator_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

func TestRequestLog(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	credential := project.AddApplicationCredential("approver")
	server := project.AddServer("n1")
	client := connect(t, sim, credential)
	client.nova.UserAgent.Prepend("approver/1.2")
	client.nova.Microversion = "2.90"
	sim.ResetRequests()

	client.serverStatus(t, server.ID)
	client.wantPorts(t, "device_id=a&device_id=b")
	client.wantFloatingIPs(t, "")
	raw(t, sim, sim.URL()+"/compute/v2.1/flavors", http.Header{"X-Auth-Token": {client.nova.Token()}}, nil)

	got := sim.Requests()
	if len(got) != 4 {
		t.Fatalf("got %d entries", len(got))
	}
	first := got[0]
	if first.Service != simulator.Nova || first.Operation != simulator.OpServer || first.Method != "GET" ||
		first.Path != "/compute/v2.1/servers/"+server.ID || first.Status != 200 || first.Microversion != "2.90" ||
		first.UserAgent != "approver/1.2 "+gophercloud.DefaultUserAgent || first.Credential != credential.ID ||
		first.Region != "RegionOne" || first.Interface != "public" || first.Time.IsZero() || first.Duration <= 0 {
		t.Errorf("got %+v", first)
	}
	if query := got[1].Query["device_id"]; len(query) != 2 {
		t.Errorf("got query %v", got[1].Query)
	}
	for count, want := range map[[2]string]int{
		{"", ""}: 4, {"compute", ""}: 2, {"", "server"}: 1, {"network", "floatingips"}: 1, {"compute", "other"}: 1, {"identity", ""}: 0,
	} {
		if got := sim.Count(simulator.Service(count[0]), simulator.Operation(count[1])); got != want {
			t.Errorf("count of %v is %d, want %d", count, got, want)
		}
	}
	sim.ResetRequests()
	if len(sim.Requests()) != 0 || sim.Count("", "") != 0 {
		t.Error("the log is not empty after a reset")
	}
}

func TestConcurrentUse(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	credential := project.AddApplicationCredential("approver")
	client := connect(t, sim, credential)
	server := project.AddServer("n1")
	port := project.AddPort(server.ID, "10.0.0.5")
	floating := project.AddFloatingIP("203.0.113.5", port.ID)

	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 20 {
				sim.UpdateServer(server.ID, func(s *simulator.Server) { s.Metadata["n"] = fmt.Sprint(i) })
				sim.UpdatePort(port.ID, func(p *simulator.Port) { p.Addresses[0] = fmt.Sprintf("10.0.0.%d", i) })
				sim.MoveFloatingIP(floating.ID, port.ID)
				sim.FreezeAddresses(server.ID)
				sim.RefreshAddresses(server.ID)
				sim.DeleteServer(project.AddServer("brief").ID)
			}
		})
		group.Go(func() {
			for range 10 {
				remove := sim.Inject(simulator.Fault{Operation: simulator.OpToken, Effect: simulator.Delay(0)})
				if got := client.serverStatus(t, server.ID); got != "ACTIVE" {
					t.Errorf("server is %q", got)
				}
				if found, err := client.ports(t.Context(), query("device_id="+server.ID)); err != nil || len(found) != 1 {
					t.Errorf("got %d ports, %v", len(found), err)
				}
				if found, err := client.floatingIPs(t.Context(), query("port_id="+port.ID)); err != nil || len(found) != 1 {
					t.Errorf("got %d floating IPs, %v", len(found), err)
				}
				remove()
				sim.Requests()
			}
		})
	}
	group.Wait()
}

// An ID that is not there is a mistake in the test, and says so.
func TestUnknownIDs(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	server := project.AddServer("n1")
	for name, try := range map[string]func(){
		`simulator: no server has the ID "x"`:          func() { sim.DeleteServer("x") },
		`simulator: no port has the ID "x"`:            func() { project.AddFloatingIP("203.0.113.5", "x") },
		`simulator: no floating IP has the ID "x"`:     func() { sim.MoveFloatingIP("x", "") },
		`simulator: no network has the ID "x"`:         func() { project.AddPort("", "", func(p *simulator.Port) { p.NetworkID = "x" }) },
		`simulator: no token has the ID "x"`:           func() { sim.RevokeToken("x") },
		`simulator: no region "x", only [RegionOne]`:   func() { sim.UpdateServer(server.ID, func(s *simulator.Server) { s.Region = "x" }) },
		`simulator: there is a project "demo" already`: func() { sim.AddProject("demo") },
		`simulator: there is a credential twice already`: func() {
			same := func(c *simulator.Credential) { c.ID = "twice" }
			project.AddApplicationCredential("a", same)
			project.AddApplicationCredential("b", same)
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != name {
					t.Errorf("got %v, want %s", got, name)
				}
			}()
			try()
		}()
	}
	if got := sim.Server(server.ID); got.Region != "RegionOne" {
		t.Errorf("the refused change was made: %+v", got)
	}
}
