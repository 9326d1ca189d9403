package verdict

import "net/netip"

// Owner is what the management cluster says about the machine behind a node. It decides which DNS
// names are the machine's, and which addresses are never a node's own.
type Owner struct {
	// Names are the accepted forms of the infrastructure machine's name, in lower case. No other
	// name proves anything: a cloud's server names can be changed by any member of the project.
	Names []string
	// Reserved are addresses that belong to the cluster, not to this machine: the API's service
	// address and, for workers, the control plane's endpoints (A08).
	Reserved []Reserved
	// ClusterRanges are the service and pod ranges. Real networks overlap them, so an address in
	// one counts only on a port that the infrastructure provider made.
	ClusterRanges []netip.Prefix
}

// Reserved is an address that no node of the cluster may have in its certificate.
type Reserved struct {
	Address netip.Addr
	// What the address is, for the person who reads the refusal: "the API server's service address".
	What string
}

// Evidence is what a source found that machines hold at the time of this verdict. Nothing in it may
// be older than the verdict that it is used for.
type Evidence struct {
	// Holdings are the addresses of the machine behind the node.
	Holdings []Holding
	// Others are addresses that other Machines of the same cluster hold, as far as a requested
	// address was recorded for one of them and looked up live.
	Others []OtherHolding
	// Reserved are addresses that the source knows to belong to the cluster, beside Owner.Reserved.
	Reserved []Reserved
}

// Holding is one address on one of the machine's ports.
type Holding struct {
	Address netip.Addr
	Kind    Kind
	// Provisioned: the port was made for the machine by its infrastructure provider, and not
	// attached by somebody later.
	Provisioned bool
	// Inactive says why the port proves nothing yet, for the person who reads the refusal; empty
	// for a port that counts.
	Inactive string
}

// OtherHolding is an address that another Machine holds.
type OtherHolding struct {
	Machine string
	Holding
}

// Kind is how a machine holds an address. The zero value is none of them.
type Kind int

const (
	_ Kind = iota
	// Fixed addresses are configured on a port of the machine.
	Fixed
	// Subport addresses are on a VLAN of a trunk port of the machine.
	Subport
	// Floating addresses are translated to a fixed address of the machine; each is bound to one port at a time.
	Floating
)

// String is the kind as operators call it.
func (k Kind) String() string {
	switch k {
	case Fixed:
		return "fixed"
	case Subport:
		return "subport"
	case Floating:
		return "floating"
	default:
		return "invalid"
	}
}
