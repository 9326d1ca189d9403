package simulator

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// address is an entry of a server's addresses.
type address struct {
	Version int    `json:"version"`
	Addr    string `json:"addr"`
	Type    string `json:"OS-EXT-IPS:type"`
	MAC     string `json:"OS-EXT-IPS-MAC:mac_addr"`
}

type novaState struct {
	vm    string
	task  any
	power int
}

var novaStates = map[string]novaState{
	"ACTIVE":       {"active", nil, 1},
	"BUILD":        {"building", "scheduling", 0},
	"DELETED":      {"deleted", nil, 0},
	"ERROR":        {"error", nil, 0},
	"PAUSED":       {"paused", nil, 3},
	"SHUTOFF":      {"stopped", nil, 4},
	"SOFT_DELETED": {"soft-delete", nil, 4},
	"SUSPENDED":    {"suspended", nil, 4},
}

// serverBody is what Nova tells about a server.
func (s *Simulator) serverBody(rt route, server Server, minor int) map[string]any {
	const seconds, micros = "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000000"
	base := s.url + rt.base
	state, ok := novaStates[server.Status]
	if !ok {
		state = novaState{vm: strings.ToLower(server.Status), power: 1}
	}
	image, flavor := derivedUUID("image"), any(map[string]any{"id": "1", "links": links("bookmark", base+"/flavors/1")})
	if minor >= 47 {
		flavor = map[string]any{
			"vcpus": 1, "ram": 64, "disk": 1, "ephemeral": 0, "swap": 0, "original_name": "m1.nano",
			"extra_specs": map[string]any{},
		}
	}
	body := map[string]any{
		"id": server.ID, "name": server.Name, "status": server.Status,
		"tenant_id": server.ProjectID, "user_id": derivedHexID(server.ProjectID, "owner"),
		"metadata": server.Metadata, "accessIPv4": server.AccessIPv4, "accessIPv6": server.AccessIPv6,
		"created": server.Created.UTC().Format(seconds), "updated": server.updated.Format(seconds),
		"addresses": s.addresses(server),
		"image":     map[string]any{"id": image, "links": links("bookmark", base+"/images/"+image)},
		"flavor":    flavor,
		"links": append(links("self", base+"/v2.1/servers/"+server.ID),
			links("bookmark", base+"/servers/"+server.ID)...),
		"hostId": strings.Repeat(derivedHexID(server.ProjectID, "host"), 2)[:56], "progress": 0,
		"config_drive": "", "key_name": nil, "security_groups": []any{map[string]any{"name": "default"}},
		"OS-DCF:diskConfig": "MANUAL", "OS-EXT-AZ:availability_zone": "nova",
		"OS-EXT-STS:vm_state": state.vm, "OS-EXT-STS:task_state": state.task, "OS-EXT-STS:power_state": state.power,
		"OS-SRV-USG:launched_at":               server.Created.UTC().Add(4 * time.Second).Format(micros),
		"OS-SRV-USG:terminated_at":             nil,
		"os-extended-volumes:volumes_attached": []any{},
	}
	if server.Status == "BUILD" { // not on a host yet
		body["hostId"], body["OS-EXT-AZ:availability_zone"], body["OS-SRV-USG:launched_at"] = "", "", nil
		delete(body, "security_groups")
	}
	for _, field := range []struct {
		since int
		key   string
		value any
	}{
		{9, "locked", false},
		{19, "description", server.Name},
		{26, "tags", []any{}},
		{63, "trusted_image_certificates", nil},
		{71, "server_groups", []any{}},
		{73, "locked_reason", nil},
		{90, "OS-EXT-SRV-ATTR:hostname", server.Hostname},
	} {
		if minor >= field.since {
			body[field.key] = field.value
		}
	}
	return body
}

// addresses is Nova's cache of what Neutron says, by network name, fixed ones first. Nova takes
// every port of the server's project whose device is the server and whose owner is compute,
// whoever plugged it in. The caller holds the lock.
func (s *Simulator) addresses(server Server) map[string][]address {
	if server.cached != nil {
		return server.cached
	}
	fixed, floating := map[string][]address{}, map[string][]address{}
	if server.Status == "BUILD" {
		return fixed
	}
	ports := []Port{}
	for _, port := range s.ports.find("device_id", server.ID) {
		if port.ProjectID == server.ProjectID && strings.HasPrefix(port.DeviceOwner, "compute:") {
			ports = append(ports, port)
		}
	}
	slices.SortFunc(ports, func(a, b Port) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.ID, b.ID)) })
	for _, port := range ports {
		network := s.networks[port.NetworkID].Name
		for _, addr := range port.Addresses {
			fixed[network] = append(fixed[network], address{ipVersion(addr), addr, "fixed", port.MAC})
		}
		for _, f := range s.floatingIPs.find("port_id", port.ID) {
			floating[network] = append(floating[network], address{ipVersion(f.Address), f.Address, "floating", port.MAC})
		}
	}
	for network, addresses := range floating {
		slices.SortFunc(addresses, func(a, b address) int { return cmp.Compare(a.Addr, b.Addr) })
		fixed[network] = append(fixed[network], addresses...)
	}
	return fixed
}

func ipVersion(addr string) int {
	if parsed, err := netip.ParseAddr(addr); err == nil && parsed.Is6() {
		return 6
	}
	return 4
}
