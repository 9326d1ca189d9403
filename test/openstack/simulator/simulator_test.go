package simulator_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

func start(t *testing.T, config simulator.Config) *simulator.Simulator {
	t.Helper()
	sim, err := simulator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return sim
}

// httpClient trusts the simulator's CA and nothing else.
func httpClient(t *testing.T, sim *simulator.Simulator) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}}
	if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(sim.CAPEM()) && sim.CAPEM() != nil {
		t.Fatal("no certificate in the CA's PEM")
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func authOptions(sim *simulator.Simulator, c *simulator.Credential) gophercloud.AuthOptions {
	options := gophercloud.AuthOptions{IdentityEndpoint: sim.AuthURL(), AllowReauth: true}
	if c.Application {
		options.ApplicationCredentialID, options.ApplicationCredentialSecret = c.ID, c.Secret
		return options
	}
	options.UserID, options.Password = c.UserID, c.Secret
	options.Scope = &gophercloud.AuthScope{ProjectID: c.Project.ID}
	return options
}

func signIn(t *testing.T, sim *simulator.Simulator, options gophercloud.AuthOptions) (*gophercloud.ProviderClient, error) {
	t.Helper()
	provider, err := openstack.NewClient(options.IdentityEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	provider.HTTPClient = *httpClient(t, sim)
	return provider, openstack.Authenticate(t.Context(), provider, options)
}

// clients are a product's view of one region.
type clients struct {
	nova, neutron *gophercloud.ServiceClient
}

func connect(t *testing.T, sim *simulator.Simulator, c *simulator.Credential, where ...gophercloud.EndpointOpts) clients {
	t.Helper()
	provider, err := signIn(t, sim, authOptions(sim, c))
	if err != nil {
		t.Fatal(err)
	}
	var endpoint gophercloud.EndpointOpts
	if len(where) > 0 {
		endpoint = where[0]
	}
	nova, err := openstack.NewComputeV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	neutron, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return clients{nova, neutron}
}

// query is a list's options as they are sent: gophercloud's own know no repeated keys.
type query string

func (q query) ToPortListQuery() (string, error)       { return "?" + string(q), nil }
func (q query) ToFloatingIPListQuery() (string, error) { return "?" + string(q), nil }

func (c clients) ports(ctx context.Context, q query) ([]ports.Port, error) {
	pages, err := ports.List(c.neutron, q).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return ports.ExtractPorts(pages)
}

func (c clients) floatingIPs(ctx context.Context, q query) ([]floatingips.FloatingIP, error) {
	pages, err := floatingips.List(c.neutron, q).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return floatingips.ExtractFloatingIPs(pages)
}

// raw is a request without gophercloud; a body of nil makes it a GET.
func raw(t *testing.T, sim *simulator.Simulator, url string, header http.Header, body any) (*http.Response, map[string]any) {
	t.Helper()
	method, content := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		content, _ = json.Marshal(body)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := httpClient(t, sim).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatalf("%s is no JSON: %v", text, err)
	}
	return response, decoded
}

func status(err error) int {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &unexpected) {
		return unexpected.Actual
	}
	return 0
}

func TestTLS(t *testing.T) {
	sim := start(t, simulator.Config{Host: "localhost"})
	credential := sim.AddProject("demo").AddApplicationCredential("approver")
	if !strings.HasPrefix(sim.URL(), "https://localhost:") {
		t.Errorf("URL is %s", sim.URL())
	}
	if _, err := signIn(t, sim, authOptions(sim, credential)); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	_, err := http.Get(sim.URL())
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("without the CA: got %v, want an unknown authority", err)
	}

	plain := start(t, simulator.Config{PlainHTTP: true})
	credential = plain.AddProject("demo").AddApplicationCredential("approver")
	if _, err := signIn(t, plain, authOptions(plain, credential)); err != nil || plain.CAPEM() != nil {
		t.Errorf("plain HTTP: error %v, CA %q", err, plain.CAPEM())
	}
}

func TestAddressInUse(t *testing.T) {
	first := start(t, simulator.Config{})
	_, err := simulator.New(simulator.Config{Listen: strings.TrimPrefix(first.URL(), "https://")})
	if err == nil || !strings.Contains(err.Error(), "listening for OpenStack clients") {
		t.Errorf("got %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	sim := start(t, simulator.Config{})
	credential := sim.AddProject("demo").AddApplicationCredential("approver")
	options := authOptions(sim, credential)
	options.IdentityEndpoint = sim.URL() + "/identity"
	if _, err := signIn(t, sim, options); err != nil {
		t.Errorf("from Keystone's root: %v", err)
	}
	versions, err := utils.GetSupportedMicroversions(t.Context(), connect(t, sim, credential).nova)
	if err != nil || versions.MinMinor != 1 || versions.MaxMinor != 93 {
		t.Errorf("got microversions %+v, %v", versions, err)
	}
	if n := sim.Count("", simulator.OpDiscovery); n != 3 { // Keystone's, Neutron's and Nova's
		t.Errorf("%d version documents were read", n)
	}
}

func TestRegionsAndInterfaces(t *testing.T) {
	sim := start(t, simulator.Config{Regions: []string{"one", "two"}})
	project := sim.AddProject("demo")
	credential := project.AddApplicationCredential("approver")
	server := project.AddServer("n1", func(s *simulator.Server) { s.Region = "two" })
	port := project.AddPort(server.ID, "10.0.0.5")
	project.AddFloatingIP("203.0.113.5", port.ID)

	for region, want := range map[string]int{"one": 0, "two": 1} {
		for _, iface := range []gophercloud.Availability{"public", "internal", "admin"} {
			sim.ResetRequests()
			client := connect(t, sim, credential, gophercloud.EndpointOpts{Region: region, Availability: iface})
			if got := client.serverStatus(t, server.ID); (got == "ACTIVE") != (want == 1) {
				t.Errorf("%s %s: server is %q", region, iface, got)
			}
			found, err := client.ports(t.Context(), query("device_id="+server.ID))
			if err != nil || len(found) != want {
				t.Errorf("%s %s: got %d ports, %v", region, iface, len(found), err)
			}
			floating, err := client.floatingIPs(t.Context(), query("port_id="+port.ID))
			if err != nil || len(floating) != want {
				t.Errorf("%s %s: got %d floating IPs, %v", region, iface, len(floating), err)
			}
			for _, request := range sim.Requests() {
				if request.Service != simulator.Keystone && (request.Region != region || request.Interface != string(iface)) {
					t.Errorf("%s %s: logged as %s %s", region, iface, request.Region, request.Interface)
				}
			}
		}
	}
	options := gophercloud.EndpointOpts{Region: "three"}
	provider, err := signIn(t, sim, authOptions(sim, credential))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openstack.NewComputeV2(provider, options); err == nil {
		t.Error("a region that does not exist has an endpoint")
	}
}
