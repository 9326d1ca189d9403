package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
)

// options are the flags.
type options struct {
	kubeconfig          string
	namespace           string
	clusterSelector     string
	nodeDomains         []string
	maxExpiration       time.Duration
	diagnosticsAddress  string
	insecureDiagnostics bool
	openstackCAFile     string
	insecureOpenstack   bool
	logging             *logs.Options

	// What validate makes of them.
	selector    labels.Selector
	openstackCA []byte
}

// maxVerbosity is the highest --v. Above it client-go logs the bodies of answers, and the management
// cluster answers with Secrets.
const maxVerbosity = 5

func newOptions() *options {
	return &options{logging: logs.NewOptions()}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "",
		"File with the management cluster's kubeconfig. Default: the service account of the Pod.")
	flags.StringVar(&o.namespace, "namespace", "",
		"Namespace whose Clusters are served. Default: all namespaces.")
	flags.StringVar(&o.clusterSelector, "cluster-selector", "",
		"Label selector of the Clusters that are served, for example environment=production. Default: every Cluster.")
	flags.StringSliceVar(&o.nodeDomains, "node-domain", nil,
		"Domain that nodes append to their infrastructure machine's name (OpenStack's dhcp_domain, for example novalocal). "+
			"Both forms of the name are then accepted. May be given more than once.")
	flags.DurationVar(&o.maxExpiration, "max-expiration", request.DefaultMaxExpiration,
		"Longest certificate lifetime that a request may ask for. Requests without a wish are not concerned.")
	flags.StringVar(&o.diagnosticsAddress, "diagnostics-address", ":8443",
		"Address that serves /metrics, with TLS, authentication and authorization. 0 turns it off.")
	flags.BoolVar(&o.insecureDiagnostics, "insecure-diagnostics", false,
		"Serve /metrics with plain HTTP and for everybody.")
	flags.StringVar(&o.openstackCAFile, "openstack-ca-file", "",
		"File with the CA certificates, in PEM, for clouds whose credential brings none. Default: the system's.")
	flags.BoolVar(&o.insecureOpenstack, "allow-insecure-openstack", false,
		"Let credentials use plain HTTP and unverified TLS. Whoever is between the approver and the cloud can then have any request approved.")
	logsv1.AddFlags(o.logging, flags)
}

// validate checks all flags and reports everything that is wrong with them at once.
func (o *options) validate(arguments []string) error {
	var errs []error
	if len(arguments) > 0 {
		errs = append(errs, fmt.Errorf("unexpected arguments %q: everything is set by flags", arguments))
	}
	if o.namespace != "" {
		if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--namespace %q is no namespace name: %s", o.namespace, strings.Join(problems, "; ")))
		}
	}
	var err error
	if o.selector, err = labels.Parse(o.clusterSelector); err != nil {
		errs = append(errs, fmt.Errorf("--cluster-selector %q is no label selector: %w", o.clusterSelector, err))
	}
	for _, domain := range o.nodeDomains {
		if problems := validation.IsDNS1123Subdomain(domain); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--node-domain %q is no domain (write it in lower case and without a leading dot): %s", domain, strings.Join(problems, "; ")))
		}
	}
	if o.maxExpiration < 10*time.Minute {
		// The API server refuses requests for less, so a lower limit would only look like one.
		errs = append(errs, fmt.Errorf("--max-expiration %s is below 10m, the shortest lifetime that Kubernetes lets a request ask for", o.maxExpiration))
	}
	if o.openstackCAFile != "" {
		if o.openstackCA, err = os.ReadFile(o.openstackCAFile); err != nil {
			errs = append(errs, fmt.Errorf("--openstack-ca-file: %w", err))
		} else if len(o.openstackCA) == 0 {
			errs = append(errs, fmt.Errorf("--openstack-ca-file %s is empty", o.openstackCAFile))
		}
	}
	if o.logging.Verbosity > maxVerbosity || len(o.logging.VModule) > 0 {
		errs = append(errs, fmt.Errorf("-v %d, --vmodule %v: at most -v=%d and no --vmodule, because Kubernetes' client logs Secrets above that",
			o.logging.Verbosity, o.logging.VModule, maxVerbosity))
	}
	if err := logsv1.ValidateAndApply(o.logging, nil); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// namespaces returns the namespaces to watch; nil means all.
func (o *options) namespaces() []string {
	return slices.DeleteFunc([]string{o.namespace}, func(ns string) bool { return ns == metav1.NamespaceAll })
}
