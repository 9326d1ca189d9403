package owner

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// Others returns the owners behind the other Machines of the cluster for which one of the addresses
// is recorded (A24). A record is old and proves nothing: it only says at whose machine to look. A
// Machine that has no infrastructure object or no provider ID holds nothing, so it is left out.
//
// A recorded address that cannot be read is an error: leaving it out would make an address look
// unowned. The error is always a *reason.Problem.
func (f *Finder) Others(ctx context.Context, o Owner, addresses []netip.Addr) ([]Owner, error) {
	unread, err := f.list(ctx, o.Cluster, byAddress, undecodable)
	if err != nil {
		return nil, err
	}
	if len(unread) > 0 {
		return nil, reason.New(reason.OwnershipRecordInvalid, "Machines %s have an address in status that cannot be read", machineNames(unread))
	}
	var others []Owner
	for _, addr := range addresses {
		recorded, err := f.list(ctx, o.Cluster, byAddress, addr.String())
		if err != nil {
			return nil, err
		}
		for i := range recorded {
			m := &recorded[i]
			if m.UID == o.Machine.UID || slices.ContainsFunc(others, func(seen Owner) bool { return seen.Machine.UID == m.UID }) {
				continue
			}
			other, err := f.chain(ctx, o.Cluster, m)
			if holdsNothing(err) {
				continue
			}
			if err != nil {
				return nil, about(m, err)
			}
			others = append(others, other)
		}
	}
	return others, nil
}

// holdsNothing tells whether a chain ends because there is no machine behind it, not yet or no longer.
func holdsNothing(err error) bool {
	switch reason.Of(err, "").Reason {
	case reason.InfrastructureMissing, reason.ProviderIDMissing:
		return true
	}
	return false
}

// about adds to a problem whose it is.
func about(m *clusterv1.Machine, err error) error {
	var p *reason.Problem
	if !errors.As(err, &p) {
		return err
	}
	return reason.New(p.Reason, "looking at Machine %s, which has one of the addresses in its status: %s", m.Name, p.Detail)
}
