package simulator_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

func TestSignIn(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	application := project.AddApplicationCredential("approver")
	user := project.AddUser("admin", "secret")
	server := project.AddServer("n1")
	domain := gophercloud.AuthScope{ProjectName: "demo", DomainName: "Default"}

	for name, options := range map[string]gophercloud.AuthOptions{
		"application credential by ID": {
			ApplicationCredentialID: application.ID, ApplicationCredentialSecret: application.Secret,
		},
		"application credential by name and user": {
			ApplicationCredentialName: "approver", ApplicationCredentialSecret: application.Secret,
			Username: application.UserName, DomainName: "Default",
		},
		"application credential by name and user ID": {
			ApplicationCredentialName: "approver", ApplicationCredentialSecret: application.Secret, UserID: application.UserID,
		},
		"password, project by ID": {
			UserID: user.ID, Password: "secret", Scope: &gophercloud.AuthScope{ProjectID: project.ID},
		},
		"password, project by name": {
			Username: "admin", Password: "secret", DomainID: "default", Scope: &domain,
		},
	} {
		t.Run(name, func(t *testing.T) {
			sim.ResetRequests()
			options.IdentityEndpoint = sim.AuthURL()
			provider, err := signIn(t, sim, options)
			if err != nil {
				t.Fatal(err)
			}
			nova, err := openstack.NewComputeV2(provider, gophercloud.EndpointOpts{})
			if err != nil {
				t.Fatal(err)
			}
			if got := (clients{nova: nova}).serverStatus(t, server.ID); got != "ACTIVE" {
				t.Errorf("server is %q", got)
			}
			want := user.ID
			if strings.HasPrefix(name, "application") {
				want = application.ID
			}
			for _, request := range sim.Requests() {
				if request.Credential != want {
					t.Errorf("%s logged with credential %q, want %q", request.Operation, request.Credential, want)
				}
			}
		})
	}
}

type object = map[string]any

func TestSignInRefused(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	other := sim.AddProject("other")
	application := project.AddApplicationCredential("approver")
	user := project.AddUser("admin", "secret")
	const usual = "The request you have made requires authentication."

	methods := func(method string, content any) object {
		return object{"identity": object{"methods": []string{method}, method: content}}
	}
	scoped := func(auth object, scope any) object {
		auth["scope"] = scope
		return auth
	}
	password := func(name, password string) object {
		return methods("password", object{"user": object{"name": name, "password": password, "domain": object{"id": "default"}}})
	}
	demo := object{"project": object{"id": project.ID}}
	good := object{"id": application.ID, "secret": application.Secret}

	for name, test := range map[string]struct {
		auth    object
		status  int
		message string
	}{
		"wrong secret":      {methods("application_credential", object{"id": application.ID, "secret": "x"}), 401, usual},
		"unknown ID":        {methods("application_credential", object{"id": "x", "secret": "x"}), 404, "Could not find Application Credential: x."},
		"unknown name":      {methods("application_credential", object{"name": "x", "user": object{"id": application.UserID}}), 401, "Could not find application credential: x"},
		"name alone":        {methods("application_credential", object{"name": "approver"}), 400, "Invalid input for field 'application_credential'."},
		"scope with it":     {scoped(methods("application_credential", good), demo), 401, "Error authenticating with application credential: Application credentials cannot request a scope."},
		"user's ID with it": {methods("application_credential", object{"id": user.ID, "secret": user.Secret}), 404, "Could not find Application Credential"},
		"wrong password":    {scoped(password("admin", "x"), demo), 401, usual},
		"unknown user":      {scoped(password("nobody", "secret"), demo), 401, usual},
		"other project":     {scoped(password("admin", "secret"), object{"project": object{"id": other.ID}}), 401, usual},
		"project, no domain": {
			scoped(password("admin", "secret"), object{"project": object{"name": "demo"}}), 401, usual,
		},
		"other method": {methods("totp", object{}), 401, "Attempted to authenticate with an unsupported method."},
		"no method":    {object{}, 400, "Invalid input for field 'methods'"},
		"no auth":      {nil, 400, "Invalid input for field 'auth'"},
	} {
		t.Run(name, func(t *testing.T) {
			body := object{"auth": test.auth}
			if test.auth == nil {
				body = object{}
			}
			response, got := raw(t, sim, sim.AuthURL()+"/auth/tokens", nil, body)
			failure, _ := got["error"].(object)
			message, _ := failure["message"].(string)
			if response.StatusCode != test.status || !strings.HasPrefix(message, test.message) {
				t.Errorf("got %d %q, want %d %q", response.StatusCode, message, test.status, test.message)
			}
			if response.Header.Get("X-Subject-Token") != "" {
				t.Error("it got a token")
			}
			if test.status == 401 && !strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Keystone uri=") {
				t.Errorf("headers are %v", response.Header)
			}
		})
	}
}

func TestUnscopedToken(t *testing.T) {
	sim := start(t, simulator.Config{})
	project := sim.AddProject("demo")
	user := project.AddUser("admin", "secret")
	server := project.AddServer("n1")
	response, body := raw(t, sim, sim.AuthURL()+"/auth/tokens", nil, object{"auth": object{"identity": object{
		"methods": []string{"password"}, "password": object{"user": object{"id": user.ID, "password": "secret"}},
	}}})
	if _, scoped := body["token"].(object)["project"]; response.StatusCode != 201 || scoped {
		t.Errorf("got %d %v", response.StatusCode, body)
	}
	header := http.Header{"X-Auth-Token": response.Header["X-Subject-Token"]}
	if response, _ := raw(t, sim, sim.URL()+"/compute/v2.1/servers/"+server.ID, header, nil); response.StatusCode != 401 {
		t.Errorf("Nova took it: %d", response.StatusCode)
	}
}

func TestTokensEnd(t *testing.T) {
	for name, test := range map[string]struct {
		end        func(*simulator.Simulator, *simulator.Credential, string)
		signsInNew bool
	}{
		"lifetime":              {func(*simulator.Simulator, *simulator.Credential, string) { time.Sleep(time.Second) }, true},
		"token revoked":         {func(s *simulator.Simulator, _ *simulator.Credential, token string) { s.RevokeToken(token) }, true},
		"all tokens revoked":    {func(_ *simulator.Simulator, c *simulator.Credential, _ string) { c.RevokeTokens() }, true},
		"credential is no more": {func(_ *simulator.Simulator, c *simulator.Credential, _ string) { c.Delete() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := simulator.Config{}
			if name == "lifetime" {
				config.TokenLifetime = time.Second
			}
			sim := start(t, config)
			project := sim.AddProject("demo")
			credential := project.AddApplicationCredential("approver")
			server := project.AddServer("n1")
			client := connect(t, sim, credential)
			if got := client.serverStatus(t, server.ID); got != "ACTIVE" {
				t.Fatalf("before: %q", got)
			}
			token := client.nova.Token()
			test.end(sim, credential, token)
			sim.ResetRequests()
			header := http.Header{"X-Auth-Token": {token}}
			for _, url := range []string{sim.URL() + "/compute/v2.1/servers/" + server.ID, sim.URL() + "/network/v2.0/ports"} {
				response, body := raw(t, sim, url, header, nil)
				if failure, _ := body["error"].(object); response.StatusCode != 401 || failure["title"] != "Unauthorized" {
					t.Errorf("%s answers the old token with %d %v", url, response.StatusCode, body)
				}
			}
			if got := client.serverStatus(t, server.ID); (got == "ACTIVE") != test.signsInNew {
				t.Errorf("after: %q", got)
			}
			if n := sim.Count(simulator.Keystone, simulator.OpToken); n != 1 {
				t.Errorf("%d times signed in again", n)
			}
		})
	}
}

func TestCloudsYAML(t *testing.T) {
	sim := start(t, simulator.Config{Regions: []string{"north"}})
	project := sim.AddProject("demo")
	application := project.AddApplicationCredential("approver", func(c *simulator.Credential) { c.ID, c.Secret = "id", `"quoted"` })
	user := project.AddUser("admin", "secret")
	insecure := false

	want := `clouds:
  "default":
    auth:
      auth_url: "` + sim.AuthURL() + `"
      application_credential_id: "id"
      application_credential_secret: "\"quoted\""
    auth_type: "v3applicationcredential"
    region_name: "north"
    interface: "public"
    identity_api_version: "3"
`
	if got := application.CloudsYAML(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = `clouds:
  "mine":
    auth:
      auth_url: "` + sim.AuthURL() + `"
      username: "admin"
      password: "secret"
      user_domain_name: "Default"
      project_name: "demo"
      project_domain_name: "Default"
    interface: "internal"
    identity_api_version: "3"
    verify: false
`
	got := user.CloudsYAML(func(c *simulator.Cloud) {
		c.Name, c.AuthType, c.Region, c.Interface, c.Verify = "mine", "", "", "internal", &insecure
	})
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
