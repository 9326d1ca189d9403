package bed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

var (
	portMu    sync.Mutex
	portsUsed = map[int]bool{}
)

// freePort returns a TCP port of the host's address that nobody listens on and no earlier call
// returned. It is taken from below the range that outgoing connections use, so that none of them
// can take it before its process listens.
func freePort(host string) (int, error) {
	portMu.Lock()
	defer portMu.Unlock()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if portsUsed[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = l.Close()
		portsUsed[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("found no free port on %s", host)
}

// freeSubnet picks a /20 of 10.0.0.0/8 that no address and no route of this machine is in. It
// stays clear of 10.96.0.0/16, the clusters' service addresses.
func freeSubnet(ctx context.Context) (netip.Prefix, error) {
	taken, err := takenPrefixes(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	for range 1000 {
		candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(130 + rand.IntN(110)), byte(16 * rand.IntN(16)), 0}), 20)
		free := true
		for _, prefix := range taken {
			free = free && !prefix.Overlaps(candidate)
		}
		if free {
			return candidate, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("found no free subnet in 10.130.0.0 to 10.239.255.255")
}

// takenPrefixes lists the networks of this machine's addresses and, where the tool ip is there, of
// its routes. A default route takes nothing.
func takenPrefixes(ctx context.Context) ([]netip.Prefix, error) {
	var taken []netip.Prefix
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil {
			taken = append(taken, prefix)
		}
	}
	if path, _ := exec.LookPath("ip"); path == "" {
		return taken, nil
	}
	routes, err := toolOutput(ctx, "ip", "-4", "route", "show", "table", "all")
	if err != nil {
		return nil, err
	}
	for field := range strings.FieldsSeq(routes) {
		if prefix, err := netip.ParsePrefix(field); err == nil && prefix.Bits() > 0 {
			taken = append(taken, prefix)
		} else if addr, err := netip.ParseAddr(field); err == nil { // a route to one host
			taken = append(taken, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return taken, nil
}
