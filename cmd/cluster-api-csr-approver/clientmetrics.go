package main

import (
	"context"
	"net/url"

	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// ownHostOnly counts requests by client-go for one host only. controller-runtime's metric of them has
// the host as a label, and the hosts of workload clusters are what tenants write into kubeconfigs: each
// new one would be another series for ever (A18).
type ownHostOnly struct {
	clientmetrics.ResultMetric
	host string
}

func (m ownHostOnly) Increment(ctx context.Context, code, method, host string) {
	if host == m.host {
		m.ResultMetric.Increment(ctx, code, method, host)
	}
}

// countOwnHostOnly must be called before any client is used. A host that cannot be parsed is
// reported by the first client that is made with the configuration.
func countOwnHostOnly(config *rest.Config) {
	host := config.Host
	if server, err := url.Parse(host); err == nil && server.Host != "" {
		host = server.Host
	}
	clientmetrics.RequestResult = ownHostOnly{clientmetrics.RequestResult, host}
}
