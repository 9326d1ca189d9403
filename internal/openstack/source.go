// Package openstack finds out from OpenStack which addresses the server behind a Machine owns.
//
// Two calls explain a server's fixed addresses, one more its floating IPs, one more the subports of a
// trunk. Each verdict asks anew:
// no answer outlives it (A06). The credential and everything it leads to are a tenant's and hostile:
// https only, no redirects, bounded answers, no environment, no files, and no word of an answer in
// an error.
package openstack

import (
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

// Options are what the operator chose about OpenStack.
type Options struct {
	// UserAgent is what OpenStack's operators see.
	UserAgent string
	// CA are the default CAs, in PEM, for credentials that bring none. Empty: the system's.
	CA []byte
	// AllowInsecure lets credentials use http and unverified TLS.
	AllowInsecure bool
}

// New makes a Source. The reader must read Secrets, Namespaces and unstructured objects live. It
// fails when Options.CA holds no certificate.
func New(reader client.Reader, mapper meta.RESTMapper, options Options) (*Source, error) {
	clients, err := newClientCache(options)
	if err != nil {
		return nil, err
	}
	return &Source{Reader: reader, Mapper: mapper, clients: clients}, nil
}

// Evidence returns what the machine's server holds now: the fixed addresses of its ports, and, when
// they do not explain all wanted addresses, those of its trunks' subports and the floating IPs bound
// to any of them. For a worker it also names the addresses of the API server's load balancer, which
// no worker may have (A08).
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
	cluster, err := s.cluster(ctx, o)
	if err != nil {
		return verdict.Evidence{}, err
	}
	reserved, err := loadBalancer(o, cluster)
	if err != nil {
		return verdict.Evidence{}, err
	}
	session, err := s.identity(ctx, o, cluster)
	if err != nil {
		return verdict.Evidence{}, err
	}
	if region != "" && session.region != "" && region != session.region {
		return verdict.Evidence{}, reason.New(reason.ProviderIDMismatch, "spec.providerID is of region %s, the credential of region %s",
			reason.Quote(region), reason.Quote(session.region))
	}
	listed, err := session.serverAndPorts(ctx, serverID)
	if err != nil {
		s.clients.rejected(session, err)
		return verdict.Evidence{}, err
	}
	holdings, err := session.holdings(ctx, listed, provisioned, wanted)
	if err != nil {
		s.clients.rejected(session, err)
		return verdict.Evidence{}, err
	}
	evidence := verdict.Evidence{Reserved: reserved}
	for _, h := range holdings {
		evidence.Holdings = append(evidence.Holdings, h.Holding)
	}
	// The cloud lists in any order; the text of a refusal must not change with it.
	slices.SortStableFunc(evidence.Holdings, func(a, b verdict.Holding) int { return a.Address.Compare(b.Address) })
	return evidence, nil
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
