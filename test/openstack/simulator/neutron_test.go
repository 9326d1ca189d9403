package simulator_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/dns"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunk_details"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// wantPorts compares first addresses, in any order.
func (c clients) wantPorts(t *testing.T, q query, want ...string) {
	t.Helper()
	found, err := c.ports(t.Context(), q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	got := []string{}
	for _, port := range found {
		got = append(got, port.FixedIPs[0].IPAddress)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", q, got, want)
	}
}

func (c clients) wantFloatingIPs(t *testing.T, q query, want ...string) {
	t.Helper()
	found, err := c.floatingIPs(t.Context(), q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	got := []string{}
	for _, f := range found {
		got = append(got, f.FloatingIP)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", q, got, want)
	}
}

func TestPorts(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	server := project.AddServer("n1")
	a := project.AddPort(server.ID, "10.0.0.1", func(p *simulator.Port) {
		p.AllowedAddressPairs = []string{"10.9.0.0/16"}
	})
	b := project.AddPort(server.ID, "10.0.0.2", func(p *simulator.Port) { p.Status = "DOWN" })
	c := project.AddPort("", "10.0.0.3")

	client.wantPorts(t, query("device_id="+server.ID), "10.0.0.1", "10.0.0.2")
	client.wantPorts(t, query("device_id="+server.ID+"&status=DOWN"), "10.0.0.2")
	client.wantPorts(t, query("id="+a.ID+"&id="+c.ID), "10.0.0.1", "10.0.0.3")
	client.wantPorts(t, query("fixed_ips=ip_address=10.0.0.2&fixed_ips=ip_address=10.0.0.3"), "10.0.0.2", "10.0.0.3")
	client.wantPorts(t, "", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	client.wantPorts(t, "device_id=00000000-0000-0000-0000-000000000000")
	if _, err := client.ports(t.Context(), "colour=red"); status(err) != 400 {
		t.Errorf("unknown filter: got %v", err)
	}

	got, err := client.ports(t.Context(), query("id="+a.ID))
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	if p := got[0]; p.ProjectID != project.ID || p.TenantID != project.ID || p.DeviceOwner != "compute:nova" || p.Status != "ACTIVE" ||
		p.MACAddress != a.MAC || p.AllowedAddressPairs[0].IPAddress != "10.9.0.0/16" || p.NetworkID != a.NetworkID {
		t.Errorf("got %+v", p)
	}

	sim.UpdatePort(b.ID, func(p *simulator.Port) { p.Addresses = append(p.Addresses, "fd00::2") })
	if got, _ := client.ports(t.Context(), query("id="+b.ID)); len(got) != 1 || len(got[0].FixedIPs) != 2 || got[0].RevisionNumber != 1 {
		t.Errorf("after the change: got %+v", got)
	}
	sim.DeletePort(b.ID)
	client.wantPorts(t, query("device_id="+server.ID), "10.0.0.1")
	sim.DeleteServer(server.ID)
	client.wantPorts(t, query("device_id="+server.ID))
	client.wantPorts(t, "", "10.0.0.3")
}

func TestProjectsArePrivate(t *testing.T) {
	sim := start(t, simulator.Config{})
	owner, guest := sim.AddProject("owner"), sim.AddProject("guest")
	shared := owner.AddNetwork("shared")
	server := guest.AddServer("n1")
	private := guest.AddPort(server.ID, "10.0.0.1")
	guest.AddPort(server.ID, "10.0.0.2", func(p *simulator.Port) { p.NetworkID = shared.ID })
	guest.AddFloatingIP("203.0.113.1", private.ID)

	mine := connect(t, sim, guest.AddApplicationCredential("approver"))
	mine.wantPorts(t, query("device_id="+server.ID), "10.0.0.1", "10.0.0.2")
	mine.wantFloatingIPs(t, "", "203.0.113.1")
	theirs := connect(t, sim, owner.AddApplicationCredential("approver"))
	theirs.wantPorts(t, query("device_id="+server.ID), "10.0.0.2") // the network's owner sees it
	theirs.wantPorts(t, query("id="+private.ID))
	theirs.wantFloatingIPs(t, query("port_id="+private.ID))
	third := connect(t, sim, sim.AddProject("third").AddApplicationCredential("approver"))
	third.wantPorts(t, query("device_id="+server.ID))
}

func TestTrunk(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	server := project.AddServer("n1")
	parent := project.AddPort(server.ID, "10.0.0.1")
	a, b := project.AddPort("", "10.1.0.1"), project.AddPort("", "10.2.0.1")
	sim.AddTrunk(parent.ID, a.ID, b.ID)

	pages, err := ports.List(client.neutron, query("device_id="+server.ID)).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []struct {
		ports.Port
		trunk_details.TrunkDetailsExt
	}
	if err := ports.ExtractPortsInto(pages, &found); err != nil || len(found) != 1 {
		t.Fatalf("got %d ports, %v", len(found), err)
	}
	if subports := found[0].SubPorts; len(subports) != 2 || subports[0].PortID != a.ID || subports[1].MACAddress != b.MAC {
		t.Errorf("got %+v", found[0].TrunkDetails)
	}
	client.wantPorts(t, query("id="+a.ID+"&id="+b.ID), "10.1.0.1", "10.2.0.1")
	if got := sim.Port(a.ID); got.DeviceOwner != "trunk:subport" || got.Status != "ACTIVE" {
		t.Errorf("got %+v", got)
	}
}

func TestDNS(t *testing.T) {
	sim := start(t, simulator.Config{DNSDomain: "cloud.example"})
	project := sim.AddProject("demo")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	project.AddPort("", "10.0.0.5")
	project.AddPort("", "10.0.0.6", func(p *simulator.Port) { p.DNSName = "mine" })
	pages, err := ports.List(client.neutron, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []struct {
		ports.Port
		dns.PortDNSExt
	}
	if err := ports.ExtractPortsInto(pages, &found); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, port := range found {
		got[port.DNSName] = port.DNSAssignment[0]["fqdn"]
	}
	if got[""] != "host-10-0-0-5.cloud.example." || got["mine"] != "mine.cloud.example." {
		t.Errorf("got %v", got)
	}
}

func TestFloatingIPs(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	a, b := project.AddPort("x", "10.0.0.1"), project.AddPort("y", "10.0.0.2")
	one := project.AddFloatingIP("203.0.113.1", a.ID)
	two := project.AddFloatingIP("203.0.113.2", b.ID, func(f *simulator.FloatingIP) { f.Status = "DOWN" })
	project.AddFloatingIP("203.0.113.3", "")

	client.wantFloatingIPs(t, query("port_id="+a.ID+"&port_id="+b.ID), "203.0.113.1", "203.0.113.2")
	client.wantFloatingIPs(t, "floating_ip_address=203.0.113.2&floating_ip_address=203.0.113.3", "203.0.113.2", "203.0.113.3")
	client.wantFloatingIPs(t, query("floating_ip_address=203.0.113.1&port_id="+b.ID))
	client.wantFloatingIPs(t, "status=DOWN", "203.0.113.2", "203.0.113.3")

	got, err := client.floatingIPs(t.Context(), query("port_id="+a.ID))
	if err != nil || len(got) != 1 || got[0].FixedIP != "10.0.0.1" || got[0].PortID != a.ID || got[0].Status != "ACTIVE" {
		t.Errorf("got %+v, %v", got, err)
	}
	sim.MoveFloatingIP(one.ID, b.ID)
	client.wantFloatingIPs(t, query("port_id="+a.ID))
	client.wantFloatingIPs(t, query("port_id="+b.ID), "203.0.113.1", "203.0.113.2")
	if got := sim.FloatingIP(one.ID); got.PortID != b.ID {
		t.Errorf("got %+v", got)
	}
	sim.DeletePort(b.ID)
	if got := sim.FloatingIP(two.ID); got.PortID != "" {
		t.Errorf("it still leads to the deleted port: %+v", got)
	}
	sim.DeleteFloatingIP(two.ID)
	client.wantFloatingIPs(t, "", "203.0.113.1", "203.0.113.3")
}

func TestPaging(t *testing.T) {
	for name, test := range map[string]struct {
		config simulator.Config
		query  query
		pages  int
	}{
		"no limit":         {simulator.Config{}, "device_id=x", 1},
		"limit":            {simulator.Config{}, "device_id=x&limit=2", 3},
		"a last page of 0": {simulator.Config{}, "device_id=x&limit=5", 2},
		"the cloud's own":  {simulator.Config{MaxPage: 3}, "device_id=x", 2},
	} {
		t.Run(name, func(t *testing.T) {
			sim := start(t, test.config)
			project := sim.AddProject("demo")
			client := connect(t, sim, project.AddApplicationCredential("approver"))
			want := []string{}
			for i := range 5 {
				want = append(want, fmt.Sprintf("10.0.0.%d", i))
				project.AddPort("x", want[i])
			}
			client.wantPorts(t, test.query, want...)
			if n := sim.Count(simulator.Neutron, simulator.OpPorts); n != test.pages {
				t.Errorf("%d pages were read, want %d", n, test.pages)
			}
		})
	}
}

func TestPagesBackwards(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	client := connect(t, sim, project.AddApplicationCredential("approver"))
	for i := range 4 {
		project.AddPort("x", fmt.Sprintf("10.0.0.%d", i))
	}
	header := http.Header{"X-Auth-Token": {client.neutron.Token()}}
	get := func(url string) (ids []string, links map[string]string) {
		_, body := raw(t, sim, url, header, nil)
		for _, port := range body["ports"].([]any) {
			ids = append(ids, port.(object)["id"].(string))
			if len(port.(object)) != 1 {
				t.Errorf("got more than the field asked for: %v", port)
			}
		}
		links = map[string]string{}
		for _, link := range body["ports_links"].([]any) {
			links[link.(object)["rel"].(string)] = link.(object)["href"].(string)
		}
		return ids, links
	}
	first, links := get(sim.URL() + "/network/v2.0/ports?fields=id&limit=2")
	_, links = get(links["next"])
	back, _ := get(links["previous"])
	if !slices.Equal(first, back) {
		t.Errorf("the page before the second is %v, the first was %v", back, first)
	}
	for path, want := range map[string]int{"limit=2&marker=x": 404, "limit=x": 400} {
		if response, _ := raw(t, sim, sim.URL()+"/network/v2.0/ports?"+path, header, nil); response.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, response.StatusCode, want)
		}
	}
}

func TestReadOnly(t *testing.T) {
	sim := start(t, simulator.Config{})
	client := connect(t, sim, sim.AddProject("demo").AddApplicationCredential("approver"))
	header := http.Header{"X-Auth-Token": {client.neutron.Token()}}
	for path, want := range map[string]string{"/network/v2.0/floatingips": "NeutronError", "/compute/v2.1/servers/x": "forbidden"} {
		response, body := raw(t, sim, sim.URL()+path, header, object{})
		if _, ok := body[want]; response.StatusCode != 403 || !ok {
			t.Errorf("%s: got %d %v", path, response.StatusCode, body)
		}
	}
}
