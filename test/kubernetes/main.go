// Command kubernetes holds the real parts of the test bed in one binary: etcd, kube-apiserver,
// kube-controller-manager, kubelet, kubeadm, and the container runtime that stands in for one
// (package cri). One binary links once and shares its pages between processes.
//
// Which part runs is chosen by the name it was called by (a symbolic link), or else by the first
// argument: "kubernetes kubelet --config …".
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/kubernetes/cri"
)

// parts maps a program's name to its main function, which takes os.Args.
var parts = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllermanager.NewControllerManagerCommand),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubeadm":                 func() { exitOn(kubeadm.Run()) },
	"cri":                     func() { exitOn(cri.Main(os.Args[1:])) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, ok := parts[name]; !ok && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run, ok := parts[name]
	if !ok {
		names := make([]string, 0, len(parts))
		for n := range parts {
			names = append(names, n)
		}
		slices.Sort(names)
		exitOn(fmt.Errorf("no part is called %q; call me by one of these names, or give it as the first argument: %s",
			name, strings.Join(names, ", ")))
	}
	run()
}

func command(build func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(build())) }
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
