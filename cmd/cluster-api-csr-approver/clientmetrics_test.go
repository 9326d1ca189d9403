package main

import (
	"context"
	"slices"
	"testing"

	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

type counted struct{ hosts []string }

func (c *counted) Increment(_ context.Context, _, _, host string) { c.hosts = append(c.hosts, host) }

// A18: hosts that tenants choose make no series.
func TestCountOwnHostOnly(t *testing.T) {
	before := clientmetrics.RequestResult
	defer func() { clientmetrics.RequestResult = before }()
	for configured, host := range map[string]string{
		"https://10.0.0.1:6443":     "10.0.0.1:6443",
		"https://[2001:db8::1]:443": "[2001:db8::1]:443",
		"https://api.example.org/k": "api.example.org",
		"10.0.0.1:6443":             "10.0.0.1:6443",
	} {
		seen := &counted{}
		clientmetrics.RequestResult = seen
		countOwnHostOnly(&rest.Config{Host: configured})
		for _, h := range []string{host, "tenant.example.org:6443", ""} {
			clientmetrics.RequestResult.Increment(t.Context(), "200", "GET", h)
		}
		if !slices.Equal(seen.hosts, []string{host}) {
			t.Errorf("%s: counted %q", configured, seen.hosts)
		}
	}
}
