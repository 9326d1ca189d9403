package approver

import (
	"context"
	"net/netip"
	"slices"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

func (a *Approver) evidence(ctx context.Context, o owner.Owner, wanted []netip.Addr) (verdict.Evidence, error) {
	source := a.options.Sources[o.Infrastructure.GroupVersionKind().GroupKind()]
	if source == nil {
		return verdict.Evidence{}, reason.New(reason.InfrastructureNotSupported, "%s", o.Infrastructure.GetKind())
	}
	return source.Evidence(ctx, o, wanted)
}

// lookAtOthers asks, for each wanted address that the machine holds on a network, whether another
// Machine of the cluster holds it too: with a second network that overlaps the first, a member of the
// project can give a server another one's address for real (A24). Whose machines to look at is what
// Cluster API recorded; what they hold is read live, with their own credentials. Floating addresses
// need no such look: each is bound to one port.
func (a *Approver) lookAtOthers(ctx context.Context, o owner.Owner, wanted []netip.Addr, evidence *verdict.Evidence) ([]owner.Owner, error) {
	var shared []netip.Addr
	for _, h := range evidence.Holdings {
		if h.Kind != verdict.Floating && slices.Contains(wanted, h.Address) && !slices.Contains(shared, h.Address) {
			shared = append(shared, h.Address)
		}
	}
	if len(shared) == 0 {
		return nil, nil
	}
	others, err := a.options.Owners.Others(ctx, o, shared)
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		theirs, err := a.evidence(ctx, other, shared)
		if gone(err) {
			continue // the record is old
		}
		if err != nil {
			p := reason.Of(err, reason.ManagementUnavailable)
			return nil, &reason.Problem{
				Reason: p.Reason, RetryAfter: p.RetryAfter,
				Detail: "looking at Machine " + other.Machine.Name + ", which has one of the addresses in its status: " + p.Detail,
			}
		}
		for _, h := range theirs.Holdings {
			evidence.Others = append(evidence.Others, verdict.OtherHolding{Machine: other.Machine.Name, Holding: h})
		}
	}
	return others, nil
}

// gone tells whether the other machine does not exist or has no ports, and so holds nothing.
func gone(err error) bool {
	switch reason.Of(err, "").Reason {
	case reason.ServerNotFound, reason.ServerDeleted, reason.PortsMissing:
		return true
	}
	return false
}
