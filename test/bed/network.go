package bed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

const netnsDir = "/var/run/netns"

func bridgeName(id string) string { return "cb" + id }

func netnsName(id, node string) string { return "csr-bed-" + id + "-" + node }

// RealKubelets says whether this machine can run real kubelets, and if not, what is missing.
func RealKubelets() (bool, string) {
	why := realKubelets()
	return why == "", why
}

var realKubelets = sync.OnceValue(func() string {
	if runtime.GOOS != "linux" {
		return "real kubelets need the network namespaces of Linux; this is " + runtime.GOOS
	}
	if os.Geteuid() != 0 {
		return "real kubelets need root, for network namespaces; run as root to have them"
	}
	var missing, packages []string
	for _, need := range [][2]string{{"ip", "iproute2"}, {"nsenter", "util-linux"}, {"unshare", "util-linux"}, {"mount", "mount"}} {
		if _, err := exec.LookPath(need[0]); err != nil {
			missing, packages = append(missing, need[0]), append(packages, need[1])
		}
	}
	if missing != nil {
		return fmt.Sprintf("real kubelets need %s: apt-get install %s", strings.Join(missing, ", "), strings.Join(packages, " "))
	}
	// A container may be root and yet not allowed any of this. What is tried here goes with its namespace.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := tool(ctx, "unshare", "--mount", "--net", "sh", "-ec",
		"ip link add bridge0 type bridge; ip link add veth0 type veth peer name veth1")
	if err != nil {
		return "this machine does not allow network namespaces with bridges: " + err.Error()
	}
	return ""
})

// makeBridge makes the bed's bridge, with the first address of its subnet.
func (b *Bed) makeBridge(ctx context.Context) error {
	name := bridgeName(b.id)
	return errors.Join(
		tool(ctx, "ip", "link", "add", name, "type", "bridge"),
		tool(ctx, "ip", "address", "add", netip.PrefixFrom(b.gateway(), b.subnet.Bits()).String(), "dev", name),
		tool(ctx, "ip", "link", "set", name, "up"))
}

// makeNetns makes a network namespace that is joined to the bridge and has the given addresses. It
// has no default route: nothing in it reaches beyond this machine.
func (b *Bed) makeNetns(ctx context.Context, index string, addresses []netip.Addr) (path string, err error) {
	name, outer := netnsName(b.id, index), "cv"+b.id+index
	steps := [][]string{
		{"netns", "add", name},
		{"link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name},
		{"link", "set", outer, "master", bridgeName(b.id), "up"},
		{"-n", name, "link", "set", "lo", "up"},
		{"-n", name, "link", "set", "eth0", "up"},
	}
	for _, address := range addresses {
		bits := address.BitLen()
		if b.subnet.Contains(address) {
			bits = b.subnet.Bits()
		}
		steps = append(steps, []string{"-n", name, "address", "add", netip.PrefixFrom(address, bits).String(), "dev", "eth0"})
	}
	for _, step := range steps {
		if err := tool(ctx, "ip", step...); err != nil {
			return "", err
		}
	}
	return netnsDir + "/" + name, nil
}
