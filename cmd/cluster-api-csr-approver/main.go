// Command cluster-api-csr-approver approves the kubelet serving certificate requests of Cluster API's
// workload clusters, when every name and address in a request belongs to the machine behind the node.
//
// It runs in the management cluster. This file holds flags and wiring only; internal/approver says
// how a request travels.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/approver"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/openstack"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/version"
)

const name = "cluster-api-csr-approver"

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// run serves until the context ends.
func run(ctx context.Context, arguments []string) error {
	o := newOptions()
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := o.validate(flags.Args()); err != nil {
		return fmt.Errorf("these flags cannot be used:\n%w", err)
	}
	ctrl.SetLogger(klog.Background())
	// A cloud is asked with its cluster's credential and nothing else: no variable of this process
	// may add to it.
	for _, variable := range os.Environ() {
		if key, _, _ := strings.Cut(variable, "="); strings.HasPrefix(key, "OS_") {
			_ = os.Unsetenv(key)
		}
	}

	// net/http prints what a server sends unasked, in the server's words. Everything of ours goes
	// through klog.
	log.SetOutput(io.Discard)

	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	// client-go's default of 5 requests a second would be shared by all clusters; the API server's
	// own priority and fairness knows better who waits.
	config.QPS = -1
	countOwnHostOnly(config)
	mgr, err := ctrl.NewManager(config, managerOptions(o))
	if err != nil {
		return fmt.Errorf("connecting to the management cluster: %w", err)
	}
	cloud, err := openstack.New(mgr.GetClient(), mgr.GetRESTMapper(), openstack.Options{
		UserAgent: version.UserAgent(), CA: o.openstackCA, AllowInsecure: o.insecureOpenstack,
	})
	if err != nil {
		return fmt.Errorf("--openstack-ca-file %s: %w", o.openstackCAFile, err)
	}
	err = approver.Setup(ctx, mgr, approver.Config{
		Name:          name,
		UserAgent:     version.UserAgent(),
		Domains:       o.nodeDomains,
		MaxExpiration: o.maxExpiration,
		Sources:       map[schema.GroupKind]approver.Source{openstack.Kind: cloud},
	}, approver.NewMetrics(metrics.Registry))
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	klog.Background().Info("Starting", "version", version.Version, "namespace", o.namespace, "clusterSelector", o.selector.String())
	return mgr.Start(ctx)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, errors.New("not in a Pod, so --kubeconfig is needed: the file with the management cluster's kubeconfig")
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s cannot be used: %w", kubeconfig, err)
	}
	return config, nil
}

// managerOptions: Clusters that match the selector, and Machines, are cached; Secrets and the
// provider's objects are read live, each time.
func managerOptions(o *options) ctrl.Options {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	byNamespace := map[string]cache.Config{}
	for _, namespace := range o.namespaces() {
		byNamespace[namespace] = cache.Config{}
	}
	diagnostics := metricsserver.Options{BindAddress: o.diagnosticsAddress}
	if !o.insecureDiagnostics {
		diagnostics.SecureServing = true
		diagnostics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return ctrl.Options{
		Scheme:  scheme,
		Metrics: diagnostics,
		Cache: cache.Options{
			DefaultNamespaces:           byNamespace,
			DefaultTransform:            cache.TransformStripManagedFields(),
			ByObject:                    map[client.Object]cache.ByObject{&clusterv1.Cluster{}: {Label: o.selector}},
			ReaderFailOnMissingInformer: true,
		},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.Namespace{}}}},
	}
}
