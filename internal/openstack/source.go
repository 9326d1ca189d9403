// Package openstack finds out from OpenStack which addresses the server behind a Machine owns.
//
// Two calls explain a server's fixed addresses, a third its floating IPs. Each verdict asks anew:
// no answer outlives it (A06). The credential and everything it leads to are a tenant's and hostile:
// https only, no redirects, bounded answers, no environment, no files, and no word of an answer in
// an error.
package openstack

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// Group is the API group of Cluster API's infrastructure providers.
const Group = "infrastructure.cluster.x-k8s.io"

// Kind is the infrastructure machine that this source knows.
var Kind = kind("OpenStackMachine")

func kind(name string) schema.GroupKind { return schema.GroupKind{Group: Group, Kind: name} }

// Source asks OpenStack. Make one with New.
type Source struct {
	Reader client.Reader
	Mapper meta.RESTMapper

	clients *clientCache
}

// New makes a Source. The reader must read Secrets and unstructured objects live; the user agent is
// what OpenStack's operators see.
func New(reader client.Reader, mapper meta.RESTMapper, userAgent string) *Source {
	return &Source{Reader: reader, Mapper: mapper, clients: newClientCache(userAgent)}
}

// Evidence returns what the machine's server holds now: the fixed addresses of its ports, and, when
// they do not explain all wanted addresses, the floating IPs bound to those ports.
//
// A port counts if its project is the server's and it was made by Cluster API's OpenStack provider
// or is ACTIVE. device_owner and the MAC are not looked at, because a member of the project can set
// them; ACTIVE nobody can set (threat A30). A good port may stay DOWN with some network drivers,
// which is why the provider's own ports count always.
//
// The error is always a *reason.Problem.
func (s *Source) Evidence(ctx context.Context, o owner.Owner, wanted []netip.Addr) (verdict.Evidence, error) {
	region, serverID, err := parseProviderID(o.ProviderID)
	if err != nil {
		return verdict.Evidence{}, err
	}
	provisioned, err := s.records(ctx, o, serverID)
	if err != nil {
		return verdict.Evidence{}, err
	}
	session, err := s.identity(ctx, o)
	if err != nil {
		return verdict.Evidence{}, err
	}
	if region != "" && session.region != "" && region != session.region {
		return verdict.Evidence{}, reason.New(reason.ProviderIDMismatch, "spec.providerID is of region %s, the credential of region %s",
			reason.Quote(region), reason.Quote(session.region))
	}
	listed, err := session.serverAndPorts(ctx, serverID)
	if err != nil {
		return verdict.Evidence{}, err
	}
	holdings, err := fixed(listed, session.project, provisioned)
	if err != nil {
		return verdict.Evidence{}, err
	}
	if !explained(wanted, holdings) {
		floating, err := session.floating(ctx, listed, holdings)
		if err != nil {
			return verdict.Evidence{}, err
		}
		holdings = append(holdings, floating...)
	}
	return verdict.Evidence{Holdings: withoutPort(holdings)}, nil
}

// portHolding remembers the port of an address, to find the floating IPs on it.
type portHolding struct {
	verdict.Holding
	port string
}

// serverAndPorts asks Nova and Neutron at the same time: neither needs the other's answer.
func (s *session) serverAndPorts(ctx context.Context, serverID string) ([]port, error) {
	var listed []port
	var serverErr, portsErr error
	group := errgroup.Group{}
	group.Go(func() error { serverErr = s.server(ctx, serverID); return nil })
	group.Go(func() error { listed, portsErr = s.ports(ctx, serverID); return nil })
	_ = group.Wait()
	switch {
	// A server that is gone has no ports either; the server's answer says more.
	case serverErr != nil:
		return nil, serverErr
	case portsErr != nil:
		return nil, portsErr
	case len(listed) == 0:
		return nil, reason.New(reason.PortsMissing, "%s: the list is empty", callPorts)
	}
	return listed, nil
}

// fixed turns ports into holdings.
func fixed(listed []port, project string, provisioned map[string]bool) ([]portHolding, error) {
	var holdings []portHolding
	for i := range listed {
		p := &listed[i]
		for _, ip := range p.FixedIPs {
			addr, err := address(ip.Address)
			if err != nil {
				return nil, err
			}
			holdings = append(holdings, portHolding{port: p.ID, Holding: verdict.Holding{
				Address:     addr,
				Kind:        verdict.Fixed,
				Provisioned: provisioned[p.ID] && p.project() == project,
				Inactive:    inactive(p, project, provisioned[p.ID]),
			}})
		}
	}
	return holdings, nil
}

// inactive says why a port does not count, and "" when it does.
func inactive(p *port, project string, provisioned bool) string {
	switch {
	case p.project() != project:
		return "its port belongs to another project than the server"
	case !provisioned && p.Status != "ACTIVE":
		return "its port is " + reason.Quote(p.Status) + " and was not made by the infrastructure provider"
	}
	return ""
}

// project has two names in Neutron; the newer one is missing in old releases.
func (p *port) project() string { return cmp.Or(p.ProjectID, p.TenantID) }

// floating returns the floating IPs on the listed ports. One proves as much as its port does.
func (s *session) floating(ctx context.Context, listed []port, holdings []portHolding) ([]portHolding, error) {
	ids := make([]string, 0, len(listed))
	for i := range listed {
		ids = append(ids, listed[i].ID)
	}
	found, err := s.floatingIPs(ctx, ids)
	if err != nil {
		return nil, err
	}
	var floating []portHolding
	for _, fip := range found {
		addr, err := address(fip.Address)
		if err != nil {
			return nil, err
		}
		// The list is what Neutron says it filtered; only what is bound to our ports counts.
		if i := slices.IndexFunc(holdings, func(h portHolding) bool { return h.port == fip.PortID }); i >= 0 {
			h := holdings[i]
			h.Address, h.Kind = addr, verdict.Floating
			floating = append(floating, h)
		}
	}
	return floating, nil
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

func explained(wanted []netip.Addr, holdings []portHolding) bool {
	for _, addr := range wanted {
		if !slices.ContainsFunc(holdings, func(h portHolding) bool { return h.Address == addr }) {
			return false
		}
	}
	return true
}

func withoutPort(holdings []portHolding) []verdict.Holding {
	out := make([]verdict.Holding, 0, len(holdings))
	for _, h := range holdings {
		out = append(out, h.Holding)
	}
	return out
}
