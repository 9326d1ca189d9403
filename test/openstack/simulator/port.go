package simulator

import (
	"slices"
	"time"
)

// Network is a network in Neutron with one subnet per IP family. As in Neutron, its owner also
// sees the ports that other projects have on it.
type Network struct {
	ID        string
	Name      string
	ProjectID string
	Region    string
}

// Port is a port in Neutron.
type Port struct {
	ID        string
	Name      string
	ProjectID string
	Region    string
	// NetworkID is by default a network of the project that is made for it.
	NetworkID string
	// DeviceID is the server's ID, or anything else: Neutron does not check it.
	DeviceID string
	// DeviceOwner is compute:nova by default, and empty without a DeviceID.
	DeviceOwner string
	// Status is ACTIVE by default, and DOWN without a DeviceID.
	Status string
	MAC    string
	// Addresses are the fixed IPs.
	Addresses []string
	// AllowedAddressPairs are addresses or whole CIDRs, with the port's MAC.
	AllowedAddressPairs []string
	DNSName             string
	// TrunkID and Subports, IDs of ports, make trunk_details. AddTrunk sets them.
	TrunkID  string
	Subports []string

	created, updated time.Time
	revision         int
}

// AddNetwork makes a network in the first region. Set its ID as the NetworkID of another
// project's port to share it.
func (p *Project) AddNetwork(name string, changes ...func(*Network)) Network {
	network := Network{ID: newUUID(), Name: name, ProjectID: p.ID, Region: p.sim.config.Regions[0]}
	apply(&network, changes)
	p.sim.region(network.Region)
	p.sim.mu.Lock()
	defer p.sim.mu.Unlock()
	p.sim.networks[network.ID] = network
	return network
}

// AddPort makes a port with an address in the server's region; either may be empty.
func (p *Project) AddPort(deviceID, address string, changes ...func(*Port)) Port {
	p.sim.mu.Lock()
	defer p.sim.mu.Unlock()
	port := Port{
		ID: newUUID(), ProjectID: p.ID, Region: p.sim.config.Regions[0], DeviceID: deviceID,
		Status: "DOWN", MAC: newMAC(), created: now(), revision: -1,
	}
	if deviceID != "" {
		port.DeviceOwner, port.Status = "compute:nova", "ACTIVE"
	}
	if server, ok := p.sim.servers.rows[deviceID]; ok {
		port.Region = server.Region
	}
	if address != "" {
		port.Addresses = []string{address}
	}
	apply(&port, changes)
	if port.NetworkID == "" {
		network := Network{Name: "net", ProjectID: port.ProjectID, Region: port.Region}
		network.ID = derivedUUID(network.Name, network.ProjectID, network.Region)
		port.NetworkID = network.ID
		p.sim.networks[network.ID] = network
	}
	p.sim.putPort(port)
	return port.clone()
}

// AddTrunk makes a port the parent of a trunk with subports. As in Neutron, a subport's only sign
// of it is its device owner; it gets active.
func (s *Simulator) AddTrunk(parentID string, subportIDs ...string) {
	for _, id := range subportIDs {
		s.UpdatePort(id, func(p *Port) { p.DeviceOwner, p.DeviceID, p.Status = "trunk:subport", "", "ACTIVE" })
	}
	s.UpdatePort(parentID, func(p *Port) { p.TrunkID, p.Subports = newUUID(), subportIDs })
}

// Port returns a port's state.
func (s *Simulator) Port(id string) Port {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return mustGet(s.ports.rows, "port", id).clone()
}

// UpdatePort changes a port.
func (s *Simulator) UpdatePort(id string, change func(*Port)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	port := mustGet(s.ports.rows, "port", id).clone()
	change(&port)
	port.ID = id
	s.putPort(port)
}

// DeletePort removes a port and detaches its floating IPs.
func (s *Simulator) DeletePort(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mustGet(s.ports.rows, "port", id)
	s.deletePort(id)
}

func (s *Simulator) deletePort(id string) {
	for _, f := range s.floatingIPs.find("port_id", id) {
		f.PortID = ""
		s.putFloatingIP(f)
	}
	s.ports.drop(id)
}

func (s *Simulator) putPort(port Port) {
	s.region(port.Region)
	mustGet(s.networks, "network", port.NetworkID)
	port.updated = now()
	port.revision++
	s.ports.put(port.ID, port.clone())
}

func (p Port) clone() Port {
	p.Addresses = slices.Clone(p.Addresses)
	p.AllowedAddressPairs = slices.Clone(p.AllowedAddressPairs)
	p.Subports = slices.Clone(p.Subports)
	return p
}
