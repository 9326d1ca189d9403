package openstack

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// clouds writes a clouds.yaml with the given lines under auth, for the fixture's Keystone.
func (f *fixture) clouds(auth ...string) string {
	return fmt.Sprintf("clouds:\n  default:\n    auth:\n      auth_url: %s\n      %s\n", f.sim.AuthURL(), strings.Join(auth, "\n      "))
}

func TestKindsOfCredential(t *testing.T) {
	const domainID = "default"
	for _, c := range []struct {
		name string
		auth func(f *fixture, user, app *simulator.Credential) []string
	}{
		{"password, names", func(f *fixture, user, _ *simulator.Credential) []string {
			return []string{"username: " + user.Name, "password: " + user.Secret, "user_domain_name: Default",
				"project_name: demo", "project_domain_name: Default"}
		}},
		{"password, IDs", func(f *fixture, user, _ *simulator.Credential) []string {
			return []string{"user_id: " + user.ID, "password: " + user.Secret, "project_id: " + f.project.ID}
		}},
		{"password, IDs of the domains", func(f *fixture, user, _ *simulator.Credential) []string {
			return []string{"username: " + user.Name, "password: " + user.Secret, "user_domain_id: " + domainID,
				"project_name: demo", "project_domain_id: " + domainID}
		}},
		{"password, one domain for both", func(f *fixture, user, _ *simulator.Credential) []string {
			return []string{"username: " + user.Name, "password: " + user.Secret, "domain_name: Default", "project_name: demo"}
		}},
		{"password, the default domain", func(f *fixture, user, _ *simulator.Credential) []string {
			return []string{"username: " + user.Name, "password: " + user.Secret, "default_domain: " + domainID, "project_name: demo"}
		}},
		{"password, tenant", func(f *fixture, user, _ *simulator.Credential) []string {
			return []string{"username: " + user.Name, "password: " + user.Secret, "user_domain_name: Default", "tenant_id: " + f.project.ID}
		}},
		{"password, both names and IDs", func(f *fixture, user, _ *simulator.Credential) []string {
			return []string{"username: " + user.Name, "user_id: " + user.ID, "password: " + user.Secret,
				"user_domain_name: Default", "user_domain_id: " + domainID, "project_id: " + f.project.ID,
				"project_name: demo", "project_domain_name: Default"}
		}},
		{"application credential, ID", func(_ *fixture, _, app *simulator.Credential) []string {
			return []string{"application_credential_id: " + app.ID, "application_credential_secret: " + app.Secret}
		}},
		{"application credential, ID with things that it does not need", func(f *fixture, _, app *simulator.Credential) []string {
			return []string{"application_credential_id: " + app.ID, "application_credential_secret: " + app.Secret,
				"application_credential_name: " + app.Name, "username: " + app.UserName, "user_id: " + app.UserID,
				"password: x", "user_domain_name: Default", "project_id: " + f.project.ID}
		}},
		{"application credential, name and user ID", func(_ *fixture, _, app *simulator.Credential) []string {
			return []string{"application_credential_name: " + app.Name, "application_credential_secret: " + app.Secret, "user_id: " + app.UserID}
		}},
		{"application credential, name and user name", func(_ *fixture, _, app *simulator.Credential) []string {
			return []string{"application_credential_name: " + app.Name, "application_credential_secret: " + app.Secret,
				"username: " + app.UserName, "user_domain_name: Default"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			f.setClouds(f.clouds(c.auth(f, f.project.AddUser("user", "p4ss"), f.credential)...))
			f.wantHoldings(t, nil, s1)
		})
	}
}

func TestNumbersAreNamesAndPasswords(t *testing.T) {
	f := start(t)
	user := f.project.AddUser("4711", "123456789012345678")
	f.setClouds(f.clouds("username: 4711", "password: "+user.Secret, "user_domain_name: Default", "project_id: "+f.project.ID))
	f.wantHoldings(t, nil, s1)
}

func TestRegions(t *testing.T) {
	two := func(c *simulator.Cloud) { c.Region = "two" }
	for _, c := range []struct {
		name, identityRef, providerID string
		clouds                        func(*simulator.Cloud)
		want                          reason.Reason
	}{
		{"clouds.yaml's", "", "", two, ""},
		{"identityRef's over clouds.yaml's", "two", "", func(*simulator.Cloud) {}, ""},
		{"E63 the same in providerID", "two", "two", two, ""},
		{"E63 another in providerID", "two", "one", two, reason.ProviderIDMismatch},
		{"E63 in providerID in another case", "two", "Two", two, reason.ProviderIDMismatch},
		{"E63 in providerID with a line break", "two", "two\n", two, reason.ProviderIDMismatch},
		{"none in clouds.yaml", "two", "two", func(c *simulator.Cloud) { c.Region = "" }, ""},
		{"the server is in another", "one", "", two, reason.ServerNotFound},
		{"one that does not exist", "three", "", two, reason.CredentialInvalid},
		{"none at all: the catalog's first", "", "", func(c *simulator.Cloud) { c.Region = "" }, reason.ServerNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t, simulator.Config{Regions: []string{"one", "two"}})
			server := f.project.AddServer("n2", func(s *simulator.Server) { s.Region = "two" })
			f.project.AddPort(server.ID, "10.2.0.5")
			f.owner.ProviderID = "openstack://" + c.providerID + "/" + server.ID
			f.setClouds(f.credential.CloudsYAML(c.clouds))
			f.identityRef(map[string]any{"name": secretName, "cloudName": "default", "region": c.identityRef})
			if c.want != "" {
				f.wantProblem(t, c.want)
				return
			}
			f.wantHoldings(t, nil, "10.2.0.5 fixed")
			for _, r := range f.sim.Requests() {
				if r.Service != simulator.Keystone && r.Region != "two" {
					t.Errorf("%s went to region %s", r.Path, r.Region)
				}
			}
		})
	}
}

func TestInterfaces(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "public"}, {"interface: public", "public"}, {"interface: publicURL", "public"},
		{"interface: internal", "internal"}, {"interface: internalURL", "internal"},
		{"interface: admin", "admin"}, {"interface: adminURL", "admin"},
		{"endpoint_type: internalURL", "internal"}, {"endpoint_type: internal\n    interface: public", "internal"},
		{"interface: private", ""}, {"interface: Internal", ""}, {"endpoint_type: 5", ""},
	} {
		t.Run(c.line, func(t *testing.T) {
			f := start(t)
			f.setClouds(f.credential.CloudsYAML(func(cloud *simulator.Cloud) { cloud.Interface = "" }) + "    " + c.line + "\n")
			if c.want == "" {
				f.wantProblem(t, reason.CredentialInvalid)
				f.wantCalls(t, nil)
				return
			}
			f.wantHoldings(t, []string{"192.0.2.1"}, s1)
			for _, r := range f.sim.Requests() {
				if r.Service != simulator.Keystone && r.Interface != c.want {
					t.Errorf("%s went to interface %s", r.Path, r.Interface)
				}
			}
		})
	}
}

func TestCloudNames(t *testing.T) {
	for name, want := range map[string]reason.Reason{
		"default": "", "other": reason.CredentialMissing, "": reason.CredentialMissing, "Default": reason.CredentialMissing,
		"x\n" + strings.Repeat("y", 5000): reason.CredentialMissing,
	} {
		t.Run(name[:min(len(name), 9)], func(t *testing.T) {
			f := start(t)
			f.identityRef(map[string]any{"name": secretName, "cloudName": name})
			if want != "" {
				f.wantProblem(t, want)
				f.wantCalls(t, nil)
				return
			}
			f.wantHoldings(t, nil, s1)
		})
	}
}

func TestSecrets(t *testing.T) {
	f := start(t)
	clouds, ca := []byte(f.credential.CloudsYAML()), f.sim.CAPEM()
	otherCA := start(t).sim.CAPEM()
	block := func(kind string) []byte {
		return bytes.ReplaceAll(ca, []byte("CERTIFICATE"), []byte(kind))
	}
	for _, c := range []struct {
		name string
		data map[string][]byte
		want reason.Reason
	}{
		{"with a CA", map[string][]byte{keyClouds: clouds, keyCA: ca}, ""},
		{"comments around the CA", map[string][]byte{keyClouds: clouds, keyCA: slices.Concat([]byte("# Example CA\nsubject=x\n\n"), ca, []byte("\n# end\n"))}, ""},
		{"a bundle", map[string][]byte{keyClouds: clouds, keyCA: slices.Concat(otherCA, ca)}, ""},
		{"a key and a broken certificate beside the CA", map[string][]byte{keyClouds: clouds,
			keyCA: slices.Concat(block("PRIVATE KEY"), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), ca)}, ""},
		{"E59 no CA", map[string][]byte{keyClouds: clouds}, reason.CloudUnavailable},
		{"an empty CA", map[string][]byte{keyClouds: clouds, keyCA: {}}, reason.CloudUnavailable},
		{"another CA", map[string][]byte{keyClouds: clouds, keyCA: otherCA}, reason.CloudUnavailable},
		{"a CA that is text", map[string][]byte{keyClouds: clouds, keyCA: []byte(canary)}, reason.CredentialInvalid},
		{"a CA that is white space", map[string][]byte{keyClouds: clouds, keyCA: []byte("\n")}, reason.CredentialInvalid},
		{"a key as CA", map[string][]byte{keyClouds: clouds, keyCA: block("PRIVATE KEY")}, reason.CredentialInvalid},
		{"half a CA", map[string][]byte{keyClouds: clouds, keyCA: ca[:len(ca)/2]}, reason.CredentialInvalid},
		{"no clouds.yaml", map[string][]byte{keyCA: ca}, reason.CredentialMissing},
		{"clouds.yaml under another key", map[string][]byte{"clouds.yml": clouds, keyCA: ca}, reason.CredentialMissing},
		{"an empty clouds.yaml", map[string][]byte{keyClouds: {}, keyCA: ca}, reason.CredentialMissing},
		{"nothing", nil, reason.CredentialMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.setSecret(c.data)
			if c.want == "" {
				f.wantHoldings(t, nil, s1)
				return
			}
			problem := f.wantProblem(t, c.want)
			if c.want == reason.CloudUnavailable && !strings.Contains(problem.Detail, "certificate") {
				t.Errorf("%q does not name the certificate", problem.Detail)
			}
		})
	}
	t.Run("the Secret is gone", func(t *testing.T) {
		f.objects.drop(&corev1.Secret{ObjectMeta: f.secretMeta()})
		f.wantProblem(t, reason.CredentialMissing)
	})
}
