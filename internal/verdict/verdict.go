// Package verdict answers the one question that the product exists for: does every name and address
// in a request belong to the machine behind the node?
//
// It is pure: no client, no clock, no context. What it is told about the machine comes from the
// management cluster and from the cloud; where exactly, it does not know.
package verdict

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
)

// Verdict is the answer for one version of one request. The zero value approves nothing.
type Verdict struct {
	// Reason is the verdict in one word: Approved, or the gravest of the findings.
	Reason reason.Reason
	// Findings name each name and address that is not the machine's, in the order of the request.
	Findings []Finding
	// Names and Holdings are what the machine does have, for the person who reads the refusal.
	Names    []string
	Holdings []Holding

	approval Approval
}

// Finding is one name or address that stands against approval.
type Finding struct {
	// SAN is the name or address as text; it passed the rules of form, so it is safe to show.
	SAN    string
	Reason reason.Reason
	// Detail adds what the reason alone does not say. May be empty.
	Detail string
	// Machine is the other Machine that holds the address; empty for other reasons.
	Machine string
}

// Approval permits the approval of exactly one version of one request. Only Judge makes one that
// is not empty, so that nothing can be approved which was not judged (A19).
type Approval struct {
	uid             types.UID
	resourceVersion string
}

// Covers tells whether the approval was given for this version of this object.
func (a Approval) Covers(uid types.UID, resourceVersion string) bool {
	return a.uid != "" && a.resourceVersion != "" && a.uid == uid && a.resourceVersion == resourceVersion
}

// Approval returns the permission to approve, and false when the verdict is another.
func (v Verdict) Approval() (Approval, bool) {
	a := v.approval
	return a, v.Reason == reason.Approved && a.Covers(a.uid, a.resourceVersion)
}

// Judge compares what a request asks for with what its machine owns. It approves a subset, never
// equality: nodes differ in what they list (E31, E32).
//
// Checked for each DNS name: it is a form of the infrastructure machine's name.
//
// Checked for each address, first match decides: it is not reserved for the cluster (A08); the
// machine holds it now (A01, A02); on a port that counts (A24, A30); not inside the cluster's own
// ranges, unless on a port that the infrastructure provider made (A08); no other Machine of the
// cluster holds it too (A24). A floating address is bound to one port at a time, so it needs no
// such look; and a port that the infrastructure provider made wins over one attached later.
//
// Not checked: the form of the request, which request.Parse did, and whether the evidence is fresh
// and true, which is its source's duty.
func Judge(r request.Request, owner Owner, evidence Evidence) Verdict {
	v := Verdict{Names: owner.Names, Holdings: evidence.Holdings}
	for _, name := range r.DNSNames {
		if !slices.Contains(owner.Names, name) {
			v.Findings = append(v.Findings, Finding{SAN: name, Reason: reason.NameNotOwned})
		}
	}
	for _, addr := range r.Addresses {
		if f := judgeAddress(addr, owner, evidence); f.Reason != reason.Approved {
			f.SAN = addr.String()
			v.Findings = append(v.Findings, f)
		}
	}
	switch {
	case len(v.Findings) > 0:
		v.Reason = gravest(v.Findings)
	case len(r.DNSNames)+len(r.Addresses) == 0:
		// request.Parse lets none through; without this line an empty Request would be approved.
		v.Reason = reason.SANMissing
	default:
		v.Reason = reason.Approved
		v.approval = Approval{uid: r.UID, resourceVersion: r.ResourceVersion}
	}
	return v
}

// judgeAddress returns a Finding whose reason is Approved when the address is the machine's own.
func judgeAddress(addr netip.Addr, owner Owner, evidence Evidence) Finding {
	for _, r := range slices.Concat(owner.Reserved, evidence.Reserved) {
		if same(r.Address, addr) {
			return Finding{Reason: reason.AddressReserved, Detail: r.What}
		}
	}
	held, found := best(addr, evidence.Holdings)
	if !found {
		return Finding{Reason: reason.AddressNotOwned}
	}
	if held.Inactive != "" {
		return Finding{Reason: reason.PortNotActive, Detail: held.Inactive}
	}
	if !held.Provisioned {
		for _, cidr := range owner.ClusterRanges {
			if contains(cidr, addr) {
				return Finding{Reason: reason.AddressInClusterRange, Detail: cidr.String()}
			}
		}
	}
	if held.Kind != Floating {
		for _, other := range evidence.Others {
			if same(other.Address, addr) && other.Inactive == "" && (other.Provisioned || !held.Provisioned) {
				return Finding{Reason: reason.AddressHeldByOther, Detail: "also held by Machine " + other.Machine, Machine: other.Machine}
			}
		}
	}
	return Finding{Reason: reason.Approved}
}

// best picks the holding that proves most: an address may be on several ports of one machine, and
// the answer must not depend on the order in which a cloud lists them.
func best(addr netip.Addr, holdings []Holding) (Holding, bool) {
	var found []Holding
	for _, h := range holdings {
		if same(h.Address, addr) {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return Holding{}, false
	}
	return slices.MinFunc(found, func(a, b Holding) int { return rank(a) - rank(b) }), true
}

// same compares addresses as the signer writes them: IPv4-mapped IPv6 is the IPv4 address, and
// nothing else equals something else (A07). An address with a zone, and one that was never set,
// equals none.
func same(a, b netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && b.Zone() == "" && a.Unmap() == b.Unmap()
}

// contains tells whether a range holds an address, both compared as in same: netip takes a range
// that is written as IPv4-mapped IPv6 for one that holds no IPv4 address.
func contains(cidr netip.Prefix, addr netip.Addr) bool {
	if cidr.Addr().Is4In6() {
		cidr = netip.PrefixFrom(cidr.Addr().Unmap(), max(cidr.Bits()-96, 0))
	}
	return cidr.Contains(addr.Unmap())
}

func rank(h Holding) int {
	switch {
	case h.Inactive != "":
		return 4
	case !h.Provisioned && h.Kind != Floating:
		return 3
	case !h.Provisioned:
		return 2
	case h.Kind != Floating:
		return 1
	default:
		return 0
	}
}

// gravest chooses the finding that speaks for all: what will not change by itself before what may
// (a port that becomes ACTIVE).
func gravest(findings []Finding) reason.Reason {
	for _, f := range findings {
		if f.Reason.Outcome() == reason.Refuse {
			return f.Reason
		}
	}
	return findings[0].Reason
}
