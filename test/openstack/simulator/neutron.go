package simulator

import (
	"net/http"
	"strings"
	"time"
)

func (s *Simulator) neutron(rt route, caller session, r *http.Request) answer {
	if rt.operation == OpDiscovery {
		return answer{status: http.StatusOK, body: map[string]any{"versions": []any{map[string]any{
			"id": "v2.0", "status": "CURRENT", "links": links("self", s.url+rt.base+"/v2.0/"),
		}}}}
	}
	a := s.neutronAnswer(rt, caller, r)
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set("X-Openstack-Request-Id", "req-"+newUUID())
	return a
}

func (s *Simulator) neutronAnswer(rt route, caller session, r *http.Request) answer {
	switch {
	case !caller.valid():
		return s.errorAnswer(Neutron, http.StatusUnauthorized, "")
	case r.Method != http.MethodGet:
		return s.errorAnswer(Neutron, http.StatusForbidden, "")
	case rt.operation == OpPorts:
		return s.list(rt, r, "port", s.visiblePorts(rt, caller, r), portFilters)
	case rt.operation == OpFloatingIPs:
		return s.list(rt, r, "floatingip", s.visibleFloatingIPs(rt, caller, r), floatingIPFilters)
	}
	return s.errorAnswer(Neutron, http.StatusNotFound, "")
}

func (s *Simulator) visiblePorts(rt route, caller session, r *http.Request) []map[string]any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	bodies := []map[string]any{}
	for _, port := range s.ports.search(r.URL.Query()) {
		mine := port.ProjectID == caller.project.ID || s.networks[port.NetworkID].ProjectID == caller.project.ID
		if mine && s.region(port.Region) == rt.region {
			bodies = append(bodies, s.portBody(port))
		}
	}
	return bodies
}

func (s *Simulator) visibleFloatingIPs(rt route, caller session, r *http.Request) []map[string]any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	bodies := []map[string]any{}
	for _, f := range s.floatingIPs.search(r.URL.Query()) {
		if f.ProjectID == caller.project.ID && s.region(f.Region) == rt.region {
			bodies = append(bodies, s.floatingIPBody(f))
		}
	}
	return bodies
}

func (s *Simulator) portBody(port Port) map[string]any {
	groups := []any{}
	if !strings.HasPrefix(port.DeviceOwner, "network:") {
		groups = append(groups, derivedUUID("security group", port.ProjectID))
	}
	fixed, pairs, assignment := []any{}, []any{}, []any{}
	for _, addr := range port.Addresses {
		fixed = append(fixed, map[string]any{"subnet_id": subnetID(port.NetworkID, addr), "ip_address": addr})
		host := port.DNSName
		if host == "" {
			host = "host-" + strings.NewReplacer(".", "-", ":", "-").Replace(addr)
		}
		assignment = append(assignment, map[string]any{
			"ip_address": addr, "hostname": host, "fqdn": host + "." + s.config.DNSDomain + ".",
		})
	}
	for _, addr := range port.AllowedAddressPairs {
		pairs = append(pairs, map[string]any{"mac_address": port.MAC, "ip_address": addr})
	}
	body := map[string]any{
		"id": port.ID, "name": port.Name, "network_id": port.NetworkID,
		"tenant_id": port.ProjectID, "project_id": port.ProjectID,
		"mac_address": port.MAC, "admin_state_up": true, "status": port.Status,
		"device_id": port.DeviceID, "device_owner": port.DeviceOwner,
		"fixed_ips": fixed, "allowed_address_pairs": pairs, "extra_dhcp_opts": []any{},
		"security_groups": groups, "description": "", "binding:vnic_type": "normal",
		"port_security_enabled": len(groups) > 0, "tags": []any{},
		"created_at": timestamp(port.created), "updated_at": timestamp(port.updated), "revision_number": port.revision,
	}
	if s.config.DNSDomain != "" {
		body["dns_name"], body["dns_domain"], body["dns_assignment"] = port.DNSName, "", assignment
	}
	if port.TrunkID != "" {
		subports := []any{}
		for i, id := range port.Subports {
			subports = append(subports, map[string]any{
				"port_id": id, "segmentation_id": 100 + i, "segmentation_type": "vlan", "mac_address": s.ports.rows[id].MAC,
			})
		}
		body["trunk_details"] = map[string]any{"trunk_id": port.TrunkID, "sub_ports": subports}
	}
	return body
}

func (s *Simulator) floatingIPBody(f FloatingIP) map[string]any {
	body := map[string]any{
		"id": f.ID, "tenant_id": f.ProjectID, "project_id": f.ProjectID,
		"floating_ip_address": f.Address, "floating_network_id": derivedUUID("public", f.Region),
		"router_id": nil, "port_id": nil, "fixed_ip_address": nil, "port_details": nil,
		"status": f.status(), "description": "", "tags": []any{},
		"created_at": timestamp(f.created), "updated_at": timestamp(f.updated), "revision_number": f.revision,
	}
	if port, ok := s.ports.rows[f.PortID]; ok {
		body["router_id"] = derivedUUID("router", port.NetworkID)
		body["port_id"], body["fixed_ip_address"] = port.ID, f.fixedAddress(port)
		body["port_details"] = map[string]any{
			"name": port.Name, "network_id": port.NetworkID, "mac_address": port.MAC, "admin_state_up": true,
			"status": port.Status, "device_id": port.DeviceID, "device_owner": port.DeviceOwner,
		}
	}
	return body
}

func subnetID(networkID, addr string) string {
	if ipVersion(addr) == 6 {
		return derivedUUID(networkID, "IPv6")
	}
	return derivedUUID(networkID, "IPv4")
}

func timestamp(t time.Time) string { return t.Format("2006-01-02T15:04:05Z") }
