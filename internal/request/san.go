package request

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// Tags of GeneralName (RFC 5280, section 4.2.1.6).
const (
	tagDNSName   = 2
	tagIPAddress = 7
)

var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// checkSANExtension reads the raw extension: crypto/x509 drops kinds of names that it does not know
// without a word, and what it dropped it could not have judged.
func checkSANExtension(csr *x509.CertificateRequest) error {
	count := 0
	for _, extension := range csr.Extensions {
		if !extension.Id.Equal(oidSubjectAltName) {
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &names); err != nil || len(rest) > 0 {
			return reason.New(reason.RequestUnparsable, "the subject alternative names cannot be read")
		}
		for _, name := range names {
			if name.Class != asn1.ClassContextSpecific || (name.Tag != tagDNSName && name.Tag != tagIPAddress) {
				return reason.New(reason.SANKindNotAllowed, "a subject alternative name with tag %d, expected DNS names (%d) and IP addresses (%d)",
					name.Tag, tagDNSName, tagIPAddress)
			}
		}
		count += len(names)
	}
	switch {
	case count == 0:
		return reason.New(reason.SANMissing, "no DNS name and no address")
	case count > MaxSANs:
		return reason.New(reason.TooManySANs, "%d names and addresses, at most %d are looked at", count, MaxSANs)
	case count != len(csr.DNSNames)+len(csr.IPAddresses):
		// What the signer would put into the certificate is not what was counted here.
		return reason.New(reason.RequestUnparsable, "%d names and addresses in the extension, but %d understood",
			count, len(csr.DNSNames)+len(csr.IPAddresses))
	}
	return nil
}

// dnsNames checks each DNS name: one rule against wildcards (*.domain verifies for every node under
// it, E15), trailing dots (E17), empty labels and control characters (E18), and one against
// addresses written as names (E16).
func dnsNames(csr *x509.CertificateRequest) ([]string, error) {
	var names []string
	for _, asked := range csr.DNSNames {
		name := strings.ToLower(asked)
		if !isDNS1123(name) {
			return nil, reason.New(reason.DNSNameInvalid, "DNS name %s", reason.Quote(asked))
		}
		if _, err := netip.ParseAddr(name); err == nil {
			return nil, reason.New(reason.DNSNameInvalid, "DNS name %s is an address", reason.Quote(asked))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// addresses refuses what can be no node's own address, whatever a cloud says about it (E30).
func addresses(csr *x509.CertificateRequest) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, asked := range csr.IPAddresses {
		addr, ok := netip.AddrFromSlice(asked)
		if !ok {
			return nil, reason.New(reason.RequestUnparsable, "an address of %d bytes", len(asked))
		}
		addr = addr.Unmap()
		if addr.IsUnspecified() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() {
			return nil, reason.New(reason.AddressNotAllowed, "%s is unspecified, loopback, link-local or multicast", addr)
		}
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}

func quoteAll(values []any) string {
	if len(values) == 0 {
		return "missing"
	}
	texts := make([]string, 0, 3)
	for _, v := range values[:min(len(values), 3)] {
		texts = append(texts, reason.Quote(fmt.Sprint(v)))
	}
	return strings.Join(texts, " and ")
}
