package verdict_test

import (
	"net/netip"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

func TestNames(t *testing.T) {
	own := evidence(holds("10.0.0.5"))
	named := func(names ...string) verdict.Owner { return verdict.Owner{Names: names} }
	runJudge(t, []judged{
		{"E51 DNS only, own name", asks("n1"), n1, own, reason.Approved, nil},
		{"E51 DNS only, no holdings", asks("n1"), n1, evidence(), reason.Approved, nil},
		{"E13 n10", asks("n10"), n1, own, reason.NameNotOwned, []string{"n10 NameNotOwned"}},
		{"E13 n1.evil.example", asks("n1.evil.example"), n1, own, reason.NameNotOwned, []string{"n1.evil.example NameNotOwned"}},
		{"E13 n", asks("n"), n1, own, reason.NameNotOwned, []string{"n NameNotOwned"}},
		{"E43 cli-71", asks("cli-71"), named("cli-71"), own, reason.Approved, nil},
		{"E44 node n1.example.org, n1 is a form of it", asks("n1"), named("n1.example.org", "n1"), own, reason.Approved, nil},
		{"E44 node n1.example.org, n1 is no form of it", asks("n1"), named("n1.example.org"), own, reason.NameNotOwned, []string{"n1 NameNotOwned"}},
		{"E45 web.1 and web-1, both forms", asks("web-1", "web.1"), named("web.1", "web-1"), own, reason.Approved, nil},
		{"E45 web2", asks("web2"), named("web.1", "web-1"), own, reason.NameNotOwned, []string{"web2 NameNotOwned"}},
		{"E46 n1.novalocal, with the domain", asks("n1.novalocal"), named("n1", "n1.novalocal"), own, reason.Approved, nil},
		{"E46 n1.novalocal, without", asks("n1.novalocal"), named("n1"), own, reason.NameNotOwned, []string{"n1.novalocal NameNotOwned"}},
		{"E47 any name beside the own address", asks("metadata.google.internal", "10.0.0.5"), n1, own, reason.NameNotOwned, []string{"metadata.google.internal NameNotOwned"}},
		{"A08 kubernetes.default.svc", asks("kubernetes.default.svc"), n1, own, reason.NameNotOwned, []string{"kubernetes.default.svc NameNotOwned"}},
		{"A25 a name of the server proves nothing", asks("n2"), named(), own, reason.NameNotOwned, []string{"n2 NameNotOwned"}},
	})
}

func TestAddresses(t *testing.T) {
	s1 := evidence(holds("10.0.0.5"), holds("203.0.113.5", floating))
	runJudge(t, []judged{
		{"E09 name and address of n2", asks("n2", "10.0.0.6"), n1, s1, reason.NameNotOwned, []string{"n2 NameNotOwned", "10.0.0.6 AddressNotOwned"}},
		{"E11 address of n2 alone", asks("10.0.0.6"), n1, s1, reason.AddressNotOwned, []string{"10.0.0.6 AddressNotOwned"}},
		{"E12 own address alone", asks("10.0.0.5"), n1, s1, reason.Approved, nil},
		{"E26 another spelling", asks("2001:db8::5"), n1, evidence(holds("2001:DB8:0:0:0:0:0:5")), reason.Approved, nil},
		{"E26 mapped in the cloud", asks("10.0.0.5"), n1, evidence(holds("::ffff:10.0.0.5")), reason.Approved, nil},
		{"E26 mapped in the request", asks("::ffff:10.0.0.5"), n1, s1, reason.Approved, nil},
		{"E26 IPv4 inside another IPv6 form", asks("::10.0.0.5"), n1, s1, reason.AddressNotOwned, []string{"::a00:5 AddressNotOwned"}},
		{"E26 NAT64", asks("64:ff9b::10.0.0.5"), n1, s1, reason.AddressNotOwned, []string{"64:ff9b::a00:5 AddressNotOwned"}},
		{"E26 zone in the cloud", asks("2001:db8::5"), n1, evidence(holds("2001:db8::5%eth0")), reason.AddressNotOwned, []string{"2001:db8::5 AddressNotOwned"}},
		{"E26 the same zone on both sides", asks("2001:db8::5%eth0"), n1, evidence(holds("2001:db8::5%eth0")), reason.AddressNotOwned, []string{"2001:db8::5%eth0 AddressNotOwned"}},
		{"E26 zone on a mapped address", asks("10.0.0.5"), n1, evidence(holds("::ffff:10.0.0.5%eth0")), reason.AddressNotOwned, []string{"10.0.0.5 AddressNotOwned"}},
		{"E27 v4 and v6", asks("10.0.0.5", "2001:db8::5"), n1, evidence(holds("10.0.0.5"), holds("2001:db8::5")), reason.Approved, nil},
		{"E27 v4 and v6 of another", asks("10.0.0.5", "2001:db8::6"), n1, evidence(holds("10.0.0.5"), holds("2001:db8::5")), reason.AddressNotOwned, []string{"2001:db8::6 AddressNotOwned"}},
		{"E31 all that it has", asks("n1", "10.0.0.5", "203.0.113.5"), n1, s1, reason.Approved, nil},
		{"E32 a part of what it has", asks("10.0.0.5"), n1, evidence(holds("10.0.0.5"), holds("10.9.0.5"), holds("203.0.113.5", floating)), reason.Approved, nil},
		{"E33 two networks", asks("10.0.0.5", "10.9.0.5"), n1, evidence(holds("10.0.0.5"), holds("10.9.0.5", attachedLater)), reason.Approved, nil},
		{"E37 floating address that is not assigned", asks("203.0.113.6"), n1, s1, reason.AddressNotOwned, []string{"203.0.113.6 AddressNotOwned"}},
		{"E39 active subport", asks("10.7.0.5"), n1, evidence(holds("10.7.0.5", subport, attachedLater)), reason.Approved, nil},
		{"E39 subport that is down", asks("10.7.0.5"), n1, evidence(holds("10.7.0.5", subport, attachedLater, inactive)), reason.PortNotActive, []string{"10.7.0.5 PortNotActive"}},
		{"E41 virtual address by allowed_address_pairs", asks("n1", "10.0.0.99"), n1, s1, reason.AddressNotOwned, []string{"10.0.0.99 AddressNotOwned"}},
		{"E42 unknown address beside good ones", asks("n1", "10.0.0.5", "198.51.100.7"), n1, s1, reason.AddressNotOwned, []string{"198.51.100.7 AddressNotOwned"}},
		{"E51 later with address", asks("n1", "10.0.0.5"), n1, s1, reason.Approved, nil},
	})
}

// A08: what belongs to the cluster is no node's, whatever the cloud says.
func TestClusterAddresses(t *testing.T) {
	controlPlane := n1
	controlPlane.Reserved = n1.Reserved[:1]
	mapped := verdict.Owner{
		Names:         n1.Names,
		Reserved:      []verdict.Reserved{{Address: addr("::ffff:10.96.0.1")}},
		ClusterRanges: prefixes("::ffff:10.96.0.0/108", "fd00::/108"),
	}
	everything := verdict.Owner{ClusterRanges: prefixes("::ffff:0.0.0.0/90")}
	runJudge(t, []judged{
		{"E41 10.96.0.1", asks("10.96.0.1"), n1, evidence(holds("10.96.0.1")), reason.AddressReserved, []string{"10.96.0.1 AddressReserved"}},
		{"E41 10.96.0.1, floating", asks("10.96.0.1"), n1, evidence(holds("10.96.0.1", floating)), reason.AddressReserved, []string{"10.96.0.1 AddressReserved"}},
		{"E41 10.96.0.1, which it does not have", asks("10.96.0.1"), n1, evidence(), reason.AddressReserved, []string{"10.96.0.1 AddressReserved"}},
		{"E41 10.96.0.1 on a port that is down", asks("10.96.0.1"), n1, evidence(holds("10.96.0.1", inactive)), reason.AddressReserved, []string{"10.96.0.1 AddressReserved"}},
		{"E41 ::ffff:10.96.0.1", asks("::ffff:10.96.0.1"), n1, evidence(holds("10.96.0.1")), reason.AddressReserved, []string{"::ffff:10.96.0.1 AddressReserved"}},
		{"E41 10.96.0.1, reserved as mapped", asks("10.96.0.1"), mapped, evidence(holds("10.96.0.1")), reason.AddressReserved, []string{"10.96.0.1 AddressReserved"}},
		{"E41 control plane endpoint on a worker", asks("192.0.2.1"), n1, evidence(holds("192.0.2.1", floating)), reason.AddressReserved, []string{"192.0.2.1 AddressReserved"}},
		{"E41 control plane endpoint on a control plane server", asks("192.0.2.1"), controlPlane, evidence(holds("192.0.2.1", floating)), reason.Approved, nil},
		{"E41 control plane endpoint, not on this control plane server", asks("192.0.2.1"), controlPlane, evidence(holds("10.0.0.5")), reason.AddressNotOwned, []string{"192.0.2.1 AddressNotOwned"}},

		{"E41 pod range, provisioned", asks("192.168.3.4"), n1, evidence(holds("192.168.3.4")), reason.Approved, nil},
		{"E41 pod range, attached later", asks("192.168.3.4"), n1, evidence(holds("192.168.3.4", attachedLater)), reason.AddressInClusterRange, []string{"192.168.3.4 AddressInClusterRange"}},
		{"E41 pod range, floating on a provisioned port", asks("192.168.3.4"), n1, evidence(holds("192.168.3.4", floating)), reason.Approved, nil},
		{"E41 pod range, floating on a port attached later", asks("192.168.3.4"), n1, evidence(holds("192.168.3.4", floating, attachedLater)), reason.AddressInClusterRange, []string{"192.168.3.4 AddressInClusterRange"}},
		{"E41 pod range, subport", asks("192.168.3.4"), n1, evidence(holds("192.168.3.4", subport, attachedLater)), reason.AddressInClusterRange, []string{"192.168.3.4 AddressInClusterRange"}},
		{"E41 pod range, on both kinds of port", asks("192.168.3.4"), n1, evidence(holds("192.168.3.4", attachedLater), holds("192.168.3.4")), reason.Approved, nil},
		{"E41 pod range, not held at all", asks("192.168.3.4"), n1, evidence(), reason.AddressNotOwned, []string{"192.168.3.4 AddressNotOwned"}},
		{"E41 pod range, first address", asks("192.168.0.0"), n1, evidence(holds("192.168.0.0", attachedLater)), reason.AddressInClusterRange, []string{"192.168.0.0 AddressInClusterRange"}},
		{"E41 pod range, last address", asks("192.168.255.255"), n1, evidence(holds("192.168.255.255", attachedLater)), reason.AddressInClusterRange, []string{"192.168.255.255 AddressInClusterRange"}},
		{"E41 just below the pod range", asks("192.167.255.255"), n1, evidence(holds("192.167.255.255", attachedLater)), reason.Approved, nil},
		{"E41 just above the pod range", asks("192.169.0.0"), n1, evidence(holds("192.169.0.0", attachedLater)), reason.Approved, nil},
		{"E41 service range, attached later", asks("10.111.255.255"), n1, evidence(holds("10.111.255.255", attachedLater)), reason.AddressInClusterRange, []string{"10.111.255.255 AddressInClusterRange"}},
		{"E41 range, mapped in request", asks("::ffff:192.168.3.4"), n1, evidence(holds("192.168.3.4", attachedLater)), reason.AddressInClusterRange, []string{"::ffff:192.168.3.4 AddressInClusterRange"}},
		{"E41 range written as mapped", asks("10.100.0.1"), mapped, evidence(holds("10.100.0.1", attachedLater)), reason.AddressInClusterRange, []string{"10.100.0.1 AddressInClusterRange"}},
		{"E41 outside a range written as mapped", asks("10.112.0.1"), mapped, evidence(holds("10.112.0.1", attachedLater)), reason.Approved, nil},
		{"E41 IPv6 range", asks("fd00::7"), mapped, evidence(holds("fd00::7", attachedLater)), reason.AddressInClusterRange, []string{"fd00::7 AddressInClusterRange"}},
		{"E41 IPv6 range of everything holds no IPv4", asks("198.51.100.7"), verdict.Owner{ClusterRanges: prefixes("::/0")}, evidence(holds("198.51.100.7", attachedLater)), reason.Approved, nil},
		{"E41 mapped range of more than all IPv4", asks("198.51.100.7"), everything, evidence(holds("198.51.100.7", attachedLater)), reason.AddressInClusterRange, []string{"198.51.100.7 AddressInClusterRange"}},
	})
}

func TestPorts(t *testing.T) {
	down := holds("10.0.0.5", attachedLater, inactive)
	runJudge(t, []judged{
		{"A30 port that does not count", asks("10.0.0.5"), n1, evidence(down), reason.PortNotActive, []string{"10.0.0.5 PortNotActive"}},
		{"A30 floating address on it", asks("10.0.0.5"), n1, evidence(holds("10.0.0.5", floating, inactive)), reason.PortNotActive, []string{"10.0.0.5 PortNotActive"}},
		{"A30 beside good ones", asks("n1", "10.0.0.5", "10.9.0.5"), n1, evidence(holds("10.9.0.5"), down), reason.PortNotActive, []string{"10.0.0.5 PortNotActive"}},
		{"A30 the address is on a good port, too", asks("10.0.0.5"), n1, evidence(down, holds("10.0.0.5", attachedLater)), reason.Approved, nil},
		{"A30 the address is on a good port, too, listed first", asks("10.0.0.5"), n1, evidence(holds("10.0.0.5", attachedLater), down), reason.Approved, nil},
		{"A30 provisioned, but of another project", asks("10.0.0.5"), n1, evidence(holds("10.0.0.5", inactive)), reason.PortNotActive, []string{"10.0.0.5 PortNotActive"}},
		{"A30 it does not lie in the cluster's range", asks("192.168.3.4"), n1, evidence(holds("192.168.3.4", attachedLater, inactive)), reason.PortNotActive, []string{"192.168.3.4 PortNotActive"}},
		// What a port that becomes ACTIVE will not mend speaks for all.
		{"A30 with a foreign name", asks("n2", "10.0.0.5"), n1, evidence(down), reason.NameNotOwned, []string{"n2 NameNotOwned", "10.0.0.5 PortNotActive"}},
		{"A30 before a foreign address", asks("10.0.0.5", "10.0.0.6"), n1, evidence(down), reason.AddressNotOwned, []string{"10.0.0.5 PortNotActive", "10.0.0.6 AddressNotOwned"}},
		{"A30 after a foreign address", asks("10.0.0.6", "10.0.0.5"), n1, evidence(down), reason.AddressNotOwned, []string{"10.0.0.6 AddressNotOwned", "10.0.0.5 PortNotActive"}},
		{"A30 two of them", asks("10.0.0.5", "10.9.0.5"), n1, evidence(down, holds("10.9.0.5", inactive)), reason.PortNotActive, []string{"10.0.0.5 PortNotActive", "10.9.0.5 PortNotActive"}},
	})
	if got := reason.PortNotActive.Outcome(); got != reason.Wait {
		t.Errorf("PortNotActive leads to %s, want waiting", got)
	}
}

// Nothing is approved out of nothing.
func TestZeroValues(t *testing.T) {
	full := evidence(holds("10.0.0.5"))
	unset := request.Request{UID: "u1", ResourceVersion: "7", Addresses: []netip.Addr{{}}}
	runJudge(t, []judged{
		{"A01 empty request", request.Request{UID: "u1", ResourceVersion: "7"}, n1, full, reason.SANMissing, nil},
		{"A01 zero request", request.Request{}, n1, full, reason.SANMissing, nil},
		{"A01 all zero", request.Request{}, verdict.Owner{}, verdict.Evidence{}, reason.SANMissing, nil},
		{"A01 zero owner, name", asks("n1"), verdict.Owner{}, full, reason.NameNotOwned, []string{"n1 NameNotOwned"}},
		{"A01 zero owner, empty name", request.Request{UID: "u1", ResourceVersion: "7", DNSNames: []string{""}}, verdict.Owner{}, full, reason.NameNotOwned, []string{" NameNotOwned"}},
		{"A01 zero evidence, address", asks("10.0.0.5"), n1, verdict.Evidence{}, reason.AddressNotOwned, []string{"10.0.0.5 AddressNotOwned"}},
		{"A01 zero evidence, name and address", asks("n1", "10.0.0.5"), n1, verdict.Evidence{}, reason.AddressNotOwned, []string{"10.0.0.5 AddressNotOwned"}},
		{"A01 zero holding", asks("10.0.0.5"), n1, evidence(verdict.Holding{}), reason.AddressNotOwned, []string{"10.0.0.5 AddressNotOwned"}},
		{"A01 address never set, on both sides", unset, n1, evidence(verdict.Holding{Kind: verdict.Fixed, Provisioned: true}), reason.AddressNotOwned, []string{"invalid IP AddressNotOwned"}},
		{"A01 reserved address never set", asks("10.0.0.5"), verdict.Owner{Reserved: []verdict.Reserved{{}}}, full, reason.Approved, nil},
		{"A01 range never set", asks("10.0.0.5"), verdict.Owner{ClusterRanges: []netip.Prefix{{}}}, full, reason.Approved, nil},
	})
}
