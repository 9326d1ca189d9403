package simulator_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// shape turns values into the names of their JSON types. A list is as its first element.
func shape(value any) any {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		if len(v) == 0 {
			return []any{}
		}
		return []any{shape(v[0])}
	case map[string]any:
		shapes := map[string]any{}
		for key, entry := range v {
			shapes[key] = shape(entry)
		}
		return shapes
	}
	return "unknown"
}

// TestShapes compares whole answers with those of a real Zed cloud: testdata/shapes has their
// keys and types.
func TestShapes(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	application := project.AddApplicationCredential("approver")
	user := project.AddUser("admin", "secret")
	server := project.AddServer("n1", func(s *simulator.Server) { s.Metadata["role"] = "test" })
	building := project.AddServer("n2", func(s *simulator.Server) { s.Status = "BUILD" })
	port := project.AddPort(server.ID, "10.0.0.5")
	floating := project.AddFloatingIP("203.0.113.5", port.ID)
	free := project.AddFloatingIP("203.0.113.6", "")

	appAuth := object{"auth": object{"identity": object{
		"methods":                []string{"application_credential"},
		"application_credential": object{"id": application.ID, "secret": application.Secret},
	}}}
	userAuth := object{"auth": object{
		"identity": object{
			"methods": []string{"password"}, "password": object{"user": object{"id": user.ID, "password": "secret"}},
		},
		"scope": object{"project": object{"id": project.ID}},
	}}
	token := connect(t, sim, application).nova.Token()
	versioned := func(version string) http.Header {
		return http.Header{"X-Auth-Token": {token}, "X-Openstack-Nova-Api-Version": {version}}
	}
	signedIn, jsonBody := http.Header{"X-Auth-Token": {token}}, "application/json"
	compute := []string{"Openstack-Api-Version", "X-Openstack-Nova-Api-Version", "Vary", "X-Openstack-Request-Id", "X-Compute-Request-Id"}
	network, keystone := []string{"X-Openstack-Request-Id"}, []string{"Vary", "X-Openstack-Request-Id"}

	for _, test := range []struct {
		file    string
		path    string
		header  http.Header
		body    any
		status  int
		content string
		headers []string
	}{
		{"version-keystone-root", "/identity", nil, nil, 300, jsonBody, append(keystone, "Location")},
		{"version-keystone-v3", "/identity/v3/", nil, nil, 200, jsonBody, keystone},
		{"version-nova-versions-root", "/compute/", nil, nil, 200, jsonBody, nil},
		{"version-nova-version", "/compute/v2.1/", nil, nil, 200, jsonBody, compute},
		{"version-neutron-root", "/network/", nil, nil, 200, jsonBody, nil},
		{"token-application-credential", "/identity/v3/auth/tokens", nil, appAuth, 201, jsonBody, append(keystone, "X-Subject-Token")},
		{"token-password", "/identity/v3/auth/tokens", nil, userAuth, 201, jsonBody, append(keystone, "X-Subject-Token")},
		{"token-401", "/identity/v3/auth/tokens", nil, object{"auth": object{"identity": object{
			"methods": []string{"application_credential"}, "application_credential": object{"id": application.ID},
		}}}, 401, jsonBody, append(keystone, "Www-Authenticate")},
		{"server", "/compute/v2.1/servers/" + server.ID, signedIn, nil, 200, jsonBody, compute},
		{"server-2.93", "/compute/v2.1/servers/" + server.ID, versioned("2.93"), nil, 200, jsonBody, compute},
		{"server-building", "/compute/v2.1/servers/" + building.ID, signedIn, nil, 200, jsonBody, compute},
		{"server-404", "/compute/v2.1/servers/x", signedIn, nil, 404, jsonBody + "; charset=UTF-8", compute},
		{"server-406", "/compute/v2.1/servers/x", versioned("2.96"), nil, 406, jsonBody + "; charset=UTF-8", compute},
		{"compute-401", "/compute/v2.1/servers/x", nil, nil, 401, jsonBody, append(compute[3:], "Www-Authenticate")},
		{"compute-401", "/network/v2.0/ports", nil, nil, 401, jsonBody, append(network, "Www-Authenticate")},
		{"ports", "/network/v2.0/ports?device_id=" + server.ID, signedIn, nil, 200, jsonBody, network},
		{"ports-page", "/network/v2.0/ports?limit=1", signedIn, nil, 200, jsonBody, network},
		{"floatingips", "/network/v2.0/floatingips?port_id=" + port.ID, signedIn, nil, 200, jsonBody, network},
		{"floatingips", "/network/v2.0/floatingips?id=" + floating.ID, signedIn, nil, 200, jsonBody, network},
		{"floatingips-free", "/network/v2.0/floatingips?id=" + free.ID, signedIn, nil, 200, jsonBody, network},
		{"network-403", "/network/v2.0/floatingips", signedIn, object{}, 403, jsonBody, network},
	} {
		t.Run(test.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "shapes", test.file+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			response, body := raw(t, sim, sim.URL()+test.path, test.header, test.body)
			if got := shape(body); !reflect.DeepEqual(got, want) {
				is, _ := json.MarshalIndent(got, "", "  ")
				should, _ := json.MarshalIndent(want, "", "  ")
				t.Errorf("got\n%s\nwant\n%s", is, should)
			}
			if response.StatusCode != test.status || response.Header.Get("Content-Type") != test.content {
				t.Errorf("got %d %s, want %d %s", response.StatusCode, response.Header.Get("Content-Type"), test.status, test.content)
			}
			wanted := map[string]bool{"Content-Type": true, "Content-Length": true, "Date": true}
			for _, name := range test.headers {
				wanted[name] = true
			}
			for name := range response.Header {
				if !wanted[name] {
					t.Errorf("has a header %s that the real one has not", name)
				}
				delete(wanted, name)
			}
			if len(wanted) > 0 {
				t.Errorf("headers are missing: %v", wanted)
			}
		})
	}
}
