package openstack

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// portHolding remembers the port of an address, to find the floating IPs on it.
type portHolding struct {
	verdict.Holding
	port string
}

// holdings turns what Neutron lists into holdings, asking for no more than it takes to explain the
// wanted addresses: first the server's ports, then the subports of its trunks, then the floating IPs
// on all of them.
func (s *session) holdings(ctx context.Context, listed []port, provisioned map[string]bool, wanted []netip.Addr) ([]portHolding, error) {
	var found []portHolding
	for i := range listed {
		p := &listed[i]
		if err := p.fixed(&found, verdict.Fixed, provisioned[p.ID], inactive(p, s.project, provisioned[p.ID])); err != nil {
			return nil, err
		}
	}
	if len(unexplained(wanted, found)) == 0 {
		return found, nil
	}
	if err := s.subports(ctx, &found, listed, provisioned); err != nil {
		return nil, err
	}
	if len(unexplained(wanted, found)) == 0 {
		return found, nil
	}
	return found, s.floating(ctx, &found)
}

// fixed adds the port's fixed addresses. A port of another project than the server's is not the
// provider's, whatever the record says.
func (p *port) fixed(found *[]portHolding, kind verdict.Kind, provisioned bool, inactive string) error {
	for _, ip := range p.FixedIPs {
		addr, err := address(ip.Address)
		if err != nil {
			return err
		}
		*found = append(*found, portHolding{port: p.ID, Holding: verdict.Holding{
			Address: addr, Kind: kind, Provisioned: provisioned && inactive == "", Inactive: inactive,
		}})
	}
	return nil
}

// inactive says why a port does not count, and "" when it does: its project is the server's, and it
// was made by the provider or is ACTIVE (A30).
func inactive(p *port, project string, provisioned bool) string {
	switch {
	case p.project() != project:
		return "its port belongs to another project than the server"
	case !provisioned && p.Status != "ACTIVE":
		return "its port is " + status(p.Status) + " and was not made by the infrastructure provider"
	}
	return ""
}

// status is one of Neutron's words for a port that is not ACTIVE; others are the cloud's own text.
func status(s string) string {
	switch s {
	case "DOWN", "BUILD", "ERROR", "N/A":
		return s
	}
	return "not ACTIVE"
}

// project has two names in Neutron; the newer one is missing in old releases.
func (p *port) project() string { return cmp.Or(p.ProjectID, p.TenantID) }

// subports adds the addresses of the trunks' subports. Neutron does not list them by the server,
// because their device_id is not set. One counts if its parent does and it is itself ACTIVE.
func (s *session) subports(ctx context.Context, found *[]portHolding, listed []port, provisioned map[string]bool) error {
	parents := map[string]*port{}
	for i := range listed {
		for _, sub := range listed[i].Trunk.Subports {
			parents[sub.ID] = &listed[i]
		}
	}
	if len(parents) == 0 {
		return nil
	}
	subports, err := s.portsByID(ctx, parents)
	if err != nil {
		return err
	}
	for i := range subports {
		p := &subports[i]
		parent := parents[p.ID]
		if parent == nil {
			continue // Neutron was asked for others
		}
		why := inactive(parent, s.project, provisioned[parent.ID])
		if why == "" {
			why = inactive(p, s.project, false)
		}
		if err := p.fixed(found, verdict.Subport, provisioned[p.ID], why); err != nil {
			return err
		}
	}
	return nil
}

// floating adds the floating IPs on the ports found so far. One proves as much as its port does.
func (s *session) floating(ctx context.Context, found *[]portHolding) error {
	byPort := map[string]portHolding{}
	for _, h := range *found {
		byPort[h.port] = h
	}
	listed, err := s.floatingIPs(ctx, byPort)
	if err != nil {
		return err
	}
	for _, fip := range listed {
		addr, err := address(fip.Address)
		if err != nil {
			return err
		}
		// The list is what Neutron says it filtered; only what is bound to our ports counts.
		if h, ours := byPort[fip.PortID]; ours {
			h.Address, h.Kind = addr, verdict.Floating
			*found = append(*found, h)
		}
	}
	return nil
}

// address parses what OpenStack writes. One that cannot be read is an error: skipping it would make
// an address look unowned.
func address(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, reason.New(reason.CloudAnswerInvalid, "an address of the server cannot be read")
	}
	return addr.Unmap(), nil
}

// unexplained returns the wanted addresses that are on no port that counts. One on a port that does not
// count may be a member's trap for somebody else's floating IP.
func unexplained(wanted []netip.Addr, found []portHolding) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(wanted), func(addr netip.Addr) bool {
		return slices.ContainsFunc(found, func(h portHolding) bool { return h.Address == addr && h.Inactive == "" })
	})
}
