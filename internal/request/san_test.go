package request_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

// Short for the options and names that the tables below are made of.
var (
	san  = requesttest.SAN
	name = requesttest.GeneralName
	dns1 = name(requesttest.TagDNS, []byte("n1"))
	ip5  = name(requesttest.TagIP, []byte{10, 0, 0, 5})
)

func asks(options ...requesttest.Option) *object { return requesttest.New("n1", options...) }

// dns is a request of DNS names alone, ip one of addresses alone.
func dns(names ...string) *object { return asks(requesttest.DNS(names...), requesttest.IP()) }
func ip(addrs ...string) *object  { return asks(requesttest.DNS(), requesttest.IP(addrs...)) }

// rawIPs is a SAN extension of addresses given as bytes.
func rawIPs(addrs ...string) requesttest.Option {
	names := make([]asn1.RawValue, len(addrs))
	for i, a := range addrs {
		names[i] = name(requesttest.TagIP, []byte(a))
	}
	return san(names...)
}

func sanExtension(dns string) []pkix.Extension {
	return []pkix.Extension{requesttest.SANExtension(name(requesttest.TagDNS, []byte(dns)))}
}

// extension is a request whose only extension is subjectAltName with these bytes.
func extension(value []byte) *object {
	e := requesttest.SANExtension()
	e.Value = value
	return asks(san(), requesttest.Extensions(e))
}

// constructed is a name whose encoding says that it consists of parts.
func constructed(tag int, bytes []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, IsCompound: true, Bytes: bytes}
}

func TestSANKinds(t *testing.T) {
	otherName := constructed(requesttest.TagOtherName, append(marshal(oidCN), marshal(asn1.RawValue{Class: 2, Tag: 0, IsCompound: true, Bytes: marshal("n2")})...))
	directoryName := constructed(requesttest.TagDirectoryName, marshal(nodeSubject("n2")))
	registeredID := name(requesttest.TagRegisteredID, []byte{42, 3})
	x400 := constructed(requesttest.TagX400, marshal([]string{}))
	ediParty := constructed(requesttest.TagEDIPartyName, marshal("n2"))
	var cases []formCase
	for _, kind := range []struct {
		name  string
		value asn1.RawValue
	}{
		{"otherName", otherName},
		{"rfc822Name", name(requesttest.TagEmail, []byte("root@n2"))},
		{"x400Address", x400},
		{"directoryName", directoryName},
		{"ediPartyName", ediParty},
		{"URI", name(requesttest.TagURI, []byte("https://n2/"))},
		{"spiffe URI", name(requesttest.TagURI, []byte("spiffe://n2/kubelet"))},
		{"registeredID", registeredID},
		{"unknown tag 9", name(9, []byte("n2"))},
		{"unknown tag 30", name(30, []byte("n2"))},
		{"universal class", asn1.RawValue{Class: asn1.ClassUniversal, Tag: requesttest.TagDNS, Bytes: []byte{1}}},
		{"application class", asn1.RawValue{Class: asn1.ClassApplication, Tag: requesttest.TagDNS, Bytes: []byte("n2")}},
		{"private class", asn1.RawValue{Class: asn1.ClassPrivate, Tag: requesttest.TagIP, Bytes: []byte{10, 0, 0, 6}}},
	} {
		cases = append(cases,
			formCase{"A10 " + kind.name + " alone", asks(san(kind.value)), reason.SANKindNotAllowed},
			formCase{"A10 " + kind.name + " before good ones", asks(san(kind.value, dns1, ip5)), reason.SANKindNotAllowed},
			formCase{"A10 " + kind.name + " after good ones", asks(san(dns1, ip5, kind.value)), reason.SANKindNotAllowed},
		)
	}
	runCases(t, append(cases,
		formCase{"A10 DNS and IP alone", asks(san(dns1, ip5)), passes},
		// The class and number are those of a DNS name or an address, but Go drops them, too.
		formCase{"A10 constructed DNS name", asks(san(dns1, constructed(requesttest.TagDNS, marshal("n2")))), reason.RequestUnparsable},
		formCase{"A10 constructed address", asks(san(ip5, constructed(requesttest.TagIP, marshal([]byte{10, 0, 0, 6})))), reason.RequestUnparsable},
		formCase{"A10 constructed DNS name alone", asks(san(constructed(requesttest.TagDNS, nil))), reason.RequestUnparsable},
		formCase{"A10 tag 31, long form", asks(san(dns1, name(31, []byte("n2")))), reason.RequestUnparsable},
	))
}

func TestSANExtension(t *testing.T) {
	one, two := sanExtension("n1"), sanExtension("n2")
	list := marshal([]asn1.RawValue{dns1})
	subject := marshal(nodeSubject("n1"))
	basicConstraints := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}
	challenge := attribute{ID: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7}, Values: []asn1.RawValue{{FullBytes: marshal("x")}}}
	empty := []pkix.Extension{requesttest.SANExtension()}
	runCases(t, []formCase{
		{"E18 no SANs", asks(san()), reason.SANMissing},
		{"E18 no SANs, other extension", asks(san(), requesttest.Extensions(basicConstraints)), reason.SANMissing},
		{"E18 empty extension", derOf(handMade(subject, extensionRequest(empty))), reason.SANMissing},
		{"E18 no attribute", derOf(handMade(subject)), reason.SANMissing},
		{"E18 no extension in the attribute", derOf(handMade(subject, extensionRequest(nil))), reason.SANMissing},
		{"E18 one attribute, one extension", derOf(handMade(subject, extensionRequest(one))), passes},

		{"A10 two SAN extensions", asks(requesttest.Extensions(two...)), reason.RequestUnparsable},
		{"A10 two SAN extensions, one of them empty", asks(requesttest.Extensions(empty...)), reason.RequestUnparsable},
		{"A10 two SAN extensions in two attributes", derOf(handMade(subject, extensionRequest(one), extensionRequest(two))), reason.RequestUnparsable},
		{"A10 SAN extension is a set", extension(marshal(asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: marshal("x")})), reason.RequestUnparsable},
		{"A10 SAN extension with bytes after the list", extension(append(list[:len(list):len(list)], 5, 0)), reason.RequestUnparsable},
		{"A10 SAN extension cut", extension(list[:len(list)-1]), reason.RequestUnparsable},
		{"A10 SAN extension empty", extension(nil), reason.RequestUnparsable},
		{"A10 SAN extension is one name", extension(marshal(dns1)), reason.RequestUnparsable},
		{"A10 SAN extension alone", extension(list), passes},

		// What the signer does not copy does not matter: it drops every extension but this one.
		{"A10 basicConstraints CA beside it", asks(requesttest.Extensions(basicConstraints)), passes},
		{"A10 challenge password beside it", derOf(handMade(subject, challenge, extensionRequest(one))), passes},
		{"A10 second value of the attribute, which nobody reads", derOf(handMade(subject, extensionRequest(one, two))), passes},
	})
}

func TestSANCount(t *testing.T) {
	addrs := func(n int) []string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("10.0.%d.%d", i/200, i%200+1))
		}
		return all
	}
	runCases(t, []formCase{
		{"E22 64 addresses", ip(addrs(64)...), passes},
		{"E22 65 addresses", ip(addrs(65)...), reason.TooManySANs},
		{"E22 1 name and 63 addresses", asks(requesttest.IP(addrs(63)...)), passes},
		{"E22 1 name and 64 addresses", asks(requesttest.IP(addrs(64)...)), reason.TooManySANs},
		{"E22 64 times one name", dns(strings.Fields(strings.Repeat("n1 ", 64))...), passes},
		{"E22 65 times one name", dns(strings.Fields(strings.Repeat("n1 ", 65))...), reason.TooManySANs},
		{"E22 1000 empty names", dns(make([]string, 1000)...), reason.TooManySANs},
	})
}

func TestDNSNames(t *testing.T) {
	runCases(t, []formCase{
		{"E13 n1", dns("n1"), passes},
		{"E13 n10, whose form is good", dns("n10"), passes},
		{"E13 n1.evil.example, whose form is good", dns("n1.evil.example"), passes},
		{"E51 DNS only", dns("n1"), passes},
		{"E15 *.novalocal", dns("*.novalocal"), reason.DNSNameInvalid},
		{"E15 *", dns("*"), reason.DNSNameInvalid},
		{"E15 node-*", dns("node-*"), reason.DNSNameInvalid},
		{"E15 beside a good one", dns("n1", "*.novalocal"), reason.DNSNameInvalid},
		{"E16 10.0.0.6", dns("10.0.0.6"), reason.DNSNameInvalid},
		{"E16 own address", dns("n1", "10.0.0.5"), reason.DNSNameInvalid},
		{"E16 2001:db8::5", dns("2001:db8::5"), reason.DNSNameInvalid},
		{"E16 ::ffff:10.0.0.6", dns("::ffff:10.0.0.6"), reason.DNSNameInvalid},
		{"E16 fe80::1%eth0", dns("fe80::1%eth0"), reason.DNSNameInvalid},
		{"E16 [::1]", dns("[::1]"), reason.DNSNameInvalid},
		{"E16 four numbers and a name", dns("10.0.0.6.example.org"), passes},
		{"E16 digits, a legal host name", dns("1"), passes},
		{"E17 n1.", dns("n1."), reason.DNSNameInvalid},
		{"E17 .n1", dns(".n1"), reason.DNSNameInvalid},
		{"E18 empty name", dns(""), reason.DNSNameInvalid},
		{"E18 empty name beside a good one", dns("n1", ""), reason.DNSNameInvalid},
		{"E18 empty label", dns("n1..novalocal"), reason.DNSNameInvalid},
		{"E18 a dot", dns("."), reason.DNSNameInvalid},
		{"E18 leading space", dns(" n1"), reason.DNSNameInvalid},
		{"E18 trailing space", dns("n1 "), reason.DNSNameInvalid},
		{"E18 line break", dns("n1\nn2"), reason.DNSNameInvalid},
		{"E18 zero byte", dns("n1\x00.evil.example"), reason.DNSNameInvalid},
		{"E18 escape sequence", dns("\x1b[2Jn1"), reason.DNSNameInvalid},
		{"E18 delete character", dns("n1\x7f"), reason.DNSNameInvalid},
		{"E18 underscore", dns("n_1"), reason.DNSNameInvalid},
		{"E18 slash", dns("n1/n2"), reason.DNSNameInvalid},
		{"E18 leading dash", dns("-n1"), reason.DNSNameInvalid},
		{"E18 trailing dash", dns("n1-"), reason.DNSNameInvalid},
		{"E18 253 characters", dns(strings.Repeat("a", 253)), passes},
		{"E18 254 characters", dns(strings.Repeat("a", 254)), reason.DNSNameInvalid},
		{"E18 60000 characters", dns(strings.Repeat("a", 40_000)), reason.DNSNameInvalid},
		{"E18 punycode", dns("xn--n1-5ia"), passes},
		{"E18 non-ASCII", dns("nö1"), reason.RequestUnparsable},
		{"E18 Kelvin sign, which lower-cases to k", dns("\u212a1"), reason.RequestUnparsable},
		{"E18 invalid UTF-8", dns("n1\xff"), reason.RequestUnparsable},
	})
}

// A07: what is returned is what the signer writes into the certificate, however it was spelled.
func TestAddresses(t *testing.T) {
	runCases(t, []formCase{
		{"E12 no DNS, IP 10.0.0.5", ip("10.0.0.5"), passes},
		{"E30 127.0.0.1", ip("127.0.0.1"), reason.AddressNotAllowed},
		{"E30 127.255.255.254", ip("127.255.255.254"), reason.AddressNotAllowed},
		{"E30 128.0.0.1", ip("128.0.0.1"), passes},
		{"E30 ::1", ip("::1"), reason.AddressNotAllowed},
		{"E30 ::2", ip("::2"), passes},
		{"E30 0.0.0.0", ip("0.0.0.0"), reason.AddressNotAllowed},
		{"E30 ::", ip("::"), reason.AddressNotAllowed},
		{"E30 169.254.169.254", ip("169.254.169.254"), reason.AddressNotAllowed},
		{"E30 169.253.169.254", ip("169.253.169.254"), passes},
		{"E30 fe80::1", ip("fe80::1"), reason.AddressNotAllowed},
		{"E30 febf::1", ip("febf::1"), reason.AddressNotAllowed},
		{"E30 fec0::1", ip("fec0::1"), passes},
		{"E30 224.0.0.1", ip("224.0.0.1"), reason.AddressNotAllowed},
		{"E30 239.255.255.255", ip("239.255.255.255"), reason.AddressNotAllowed},
		{"E30 223.255.255.255", ip("223.255.255.255"), passes},
		{"E30 ff02::1", ip("ff02::1"), reason.AddressNotAllowed},
		{"E30 beside a good one", ip("10.0.0.5", "127.0.0.1"), reason.AddressNotAllowed},
		{"E30 mapped loopback", ip("::ffff:127.0.0.1"), reason.AddressNotAllowed},
		{"E30 mapped unspecified", ip("::ffff:0.0.0.0"), reason.AddressNotAllowed},
		{"E30 mapped link-local", ip("::ffff:169.254.169.254"), reason.AddressNotAllowed},
		{"E30 mapped multicast", ip("::ffff:224.0.0.1"), reason.AddressNotAllowed},
		{"A10 address of 0 bytes", asks(rawIPs("")), reason.RequestUnparsable},
		{"A10 address of 3 bytes", asks(rawIPs("\x0a\x00\x00")), reason.RequestUnparsable},
		{"A10 address and mask, 8 bytes", asks(rawIPs("\x0a\x00\x00\x05\xff\xff\xff\xff")), reason.RequestUnparsable},
		{"A10 address of 17 bytes", asks(rawIPs(strings.Repeat("\x20", 17))), reason.RequestUnparsable},
	})
}

// What comes out is what the certificate will be valid for: spelled in one way, each once, in the
// order of the request.
func TestWhatParseReturns(t *testing.T) {
	addrs := func(texts ...string) (all []netip.Addr) {
		for _, s := range texts {
			all = append(all, netip.MustParseAddr(s))
		}
		return all
	}
	for _, c := range []struct {
		name  string
		csr   *object
		names []string
		addrs []netip.Addr
	}{
		{"E27 v4 and v6", asks(requesttest.IP("10.0.0.5", "2001:db8::5")), []string{"n1"}, addrs("10.0.0.5", "2001:db8::5")},
		{"E26 2001:DB8:0:0:0:0:0:5", ip("2001:DB8:0:0:0:0:0:5"), nil, addrs("2001:db8::5")},
		{"E26 IPv4-mapped", ip("::ffff:10.0.0.5"), nil, addrs("10.0.0.5")},
		{"E26 IPv4 twice, once mapped", ip("::ffff:10.0.0.5", "10.0.0.6", "10.0.0.5"), nil, addrs("10.0.0.5", "10.0.0.6")},
		{"E26 other forms that embed an IPv4 stay", ip("::10.0.0.5", "64:ff9b::10.0.0.5", "2002:a00:5::"), nil, addrs("::a00:5", "64:ff9b::a00:5", "2002:a00:5::")},
		{"E13 upper case", dns("N1", "n1.Novalocal"), []string{"n1", "n1.novalocal"}, nil},
		{"E13 the same name twice", dns("n1", "b", "N1", "a", "n1"), []string{"n1", "b", "a"}, nil},
		{"E31 mixed order", asks(san(ip5, dns1, name(requesttest.TagIP, []byte{10, 9, 0, 5}), name(requesttest.TagDNS, []byte("a")))), []string{"n1", "a"}, addrs("10.0.0.5", "10.9.0.5")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := checkParse(t, c.csr, passes)
			want := request.Request{
				Name: "csr-n1", UID: "uid-of-csr-n1", ResourceVersion: "1", Node: "n1",
				DNSNames: c.names, Addresses: c.addrs,
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}
