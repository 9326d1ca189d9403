package simulator

import (
	"cmp"
	"time"
)

// FloatingIP is a floating IP in Neutron.
type FloatingIP struct {
	ID        string
	ProjectID string
	Region    string
	Address   string
	// PortID is the port that it leads to; empty when it is free.
	PortID string
	// FixedAddress is the port's address that it leads to; by default the port's first.
	FixedAddress string
	// Status overrides what Neutron would say: ACTIVE with a port and DOWN without.
	Status string

	created, updated time.Time
	revision         int
}

// AddFloatingIP makes a floating IP that leads to a port, in the port's region; no port leaves it free.
func (p *Project) AddFloatingIP(address, portID string, changes ...func(*FloatingIP)) FloatingIP {
	p.sim.mu.Lock()
	defer p.sim.mu.Unlock()
	f := FloatingIP{
		ID: newUUID(), ProjectID: p.ID, Region: p.sim.config.Regions[0], Address: address, PortID: portID,
		created: now(), revision: -1,
	}
	if portID != "" {
		f.Region = mustGet(p.sim.ports.rows, "port", portID).Region
	}
	apply(&f, changes)
	p.sim.putFloatingIP(f)
	return f
}

// FloatingIP returns a floating IP's state.
func (s *Simulator) FloatingIP(id string) FloatingIP {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return mustGet(s.floatingIPs.rows, "floating IP", id)
}

// UpdateFloatingIP changes a floating IP.
func (s *Simulator) UpdateFloatingIP(id string, change func(*FloatingIP)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := mustGet(s.floatingIPs.rows, "floating IP", id)
	change(&f)
	f.ID = id
	s.putFloatingIP(f)
}

// MoveFloatingIP leads a floating IP to another port, or to none: an empty ID detaches it.
func (s *Simulator) MoveFloatingIP(id, portID string) {
	s.UpdateFloatingIP(id, func(f *FloatingIP) { f.PortID, f.FixedAddress = portID, "" })
}

// DeleteFloatingIP removes a floating IP.
func (s *Simulator) DeleteFloatingIP(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mustGet(s.floatingIPs.rows, "floating IP", id)
	s.floatingIPs.drop(id)
}

func (s *Simulator) putFloatingIP(f FloatingIP) {
	s.region(f.Region)
	if f.PortID != "" {
		mustGet(s.ports.rows, "port", f.PortID)
	}
	f.updated = now()
	f.revision++
	s.floatingIPs.put(f.ID, f)
}

func (f FloatingIP) status() string {
	if f.PortID == "" {
		return cmp.Or(f.Status, "DOWN")
	}
	return cmp.Or(f.Status, "ACTIVE")
}

// fixedAddress is nothing when the port has no address.
func (f FloatingIP) fixedAddress(port Port) string {
	if f.FixedAddress == "" && len(port.Addresses) > 0 {
		return port.Addresses[0]
	}
	return f.FixedAddress
}
