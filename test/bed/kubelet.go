package bed

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// realKubelet is a kubelet and its container runtime as processes, the kubelet in a network
// namespace and a mount namespace of its own.
type realKubelet struct {
	bed     *Bed
	name    string // of its log
	dir     string
	netns   string
	socket  string // of the container runtime
	args    []string
	runtime *process
	kubelet *process
}

// kubeletScript keeps the kubelet off the machine it runs on. In its mount namespace, which ends
// with it, the fixed paths that it writes lie in the node's own folder, and so do the kernel
// settings that it would change for the whole machine. Arguments: the folder, the network
// namespace, the kubelet and its arguments.
const kubeletScript = `dir=$1 netns=$2; shift 2
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	[ -e /proc/sys/$setting ] || continue
	copy=$dir/$(basename $setting)
	cat /proc/sys/$setting >"$copy"
	mount --bind "$copy" /proc/sys/$setting
done
mount --bind "$dir/log" /var/log
mount --bind "$dir/lib" /var/lib
exec nsenter --net="$netns" "$@"
`

// newRealKubelet makes the node's network namespace and files.
func (w *Workload) newRealKubelet(ctx context.Context, n *Node, spec NodeSpec, kubeconfig []byte) (kubelet, error) {
	if !w.bed.subnet.Contains(n.Addresses[0]) {
		return nil, fmt.Errorf("the address %s is not in the bed's subnet %s", n.Addresses[0], w.bed.subnet)
	}
	index := w.bed.nextIndex()
	k := &realKubelet{bed: w.bed, name: w.name + "-" + n.Name, dir: filepath.Join(w.bed.tmp, "n"+index)}
	k.socket = filepath.Join(k.dir, "cri.sock")
	for _, dir := range []string{"log", "lib", "root", "pki", "plugins"} {
		if err := os.MkdirAll(filepath.Join(k.dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"serverTLSBootstrap": true, "rotateCertificates": true,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": filepath.Join(w.pki, "ca.crt")},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + k.socket,
		"failCgroupV1":             false, "cgroupsPerQOS": false, "enforceNodeAllocatable": []string{}, "cgroupDriver": "cgroupfs",
		"failSwapOn": false, "makeIPTablesUtilChains": false, "oomScoreAdj": 0,
		"podLogsDir": filepath.Join(k.dir, "log"), "volumePluginDir": filepath.Join(k.dir, "plugins"),
	}
	maps.Copy(config, spec.KubeletConfig)
	configYAML, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{"kubelet.yaml": configYAML, "kubelet.conf": kubeconfig, "enter.sh": []byte(kubeletScript)} {
		if err := os.WriteFile(filepath.Join(k.dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	k.args = append([]string{
		"--config=" + filepath.Join(k.dir, "kubelet.yaml"), "--kubeconfig=" + filepath.Join(k.dir, "kubelet.conf"),
		"--cert-dir=" + filepath.Join(k.dir, "pki"), "--root-dir=" + filepath.Join(k.dir, "root"),
		"--hostname-override=" + n.Name, "--node-ip=" + n.Addresses[0].String(),
	}, spec.KubeletArgs...)
	k.netns, err = w.bed.makeNetns(ctx, index, n.Addresses)
	return k, err
}

func (k *realKubelet) start(ctx context.Context) (err error) {
	k.runtime, err = k.bed.start(k.name+"-cri", filepath.Join(k.bed.bin, "cri"), "--listen", k.socket)
	if err != nil {
		return err
	}
	err = k.runtime.waitReady(ctx, 10*time.Second, func(context.Context) error {
		_, err := os.Stat(k.socket)
		return err
	})
	if err != nil {
		return err
	}
	args := append([]string{"--mount", "--propagation", "private", "sh", "-e", filepath.Join(k.dir, "enter.sh"),
		k.dir, k.netns, filepath.Join(k.bed.bin, "kubelet")}, k.args...)
	k.kubelet, err = k.bed.start(k.name+"-kubelet", "unshare", args...)
	return err
}

func (k *realKubelet) stop() {
	k.kubelet.stop(3 * time.Second)
	k.runtime.stop(2 * time.Second)
	k.kubelet, k.runtime = nil, nil
	_ = os.Remove(k.socket) // else the next start would take it for the new runtime's
}

func (k *realKubelet) waitReady(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	return k.kubelet.waitReady(ctx, limit, check)
}
