package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// A12 to A15: kubeconfigs that would run a program, read our files or hand a credential on are
// refused before anybody is contacted. Each is good but for one field.
func TestHostileKubeconfigs(t *testing.T) {
	together(t)
	type change = func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, a *attacker, file string)
	for name, change := range map[string]change{
		"a13-token-file": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, _ *attacker, file string) {
			u.Token, u.TokenFile = "", file
		},
		"a13-token-file-and-token": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, _ *attacker, file string) {
			u.TokenFile = file
		},
		"a12-exec": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, _ *attacker, file string) {
			u.Token = ""
			u.Exec = &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{file + ".made"},
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		},
		"a12-auth-provider": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, a *attacker, _ string) {
			u.Token = ""
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc", Config: map[string]string{
				"idp-issuer-url": a.URL, "client-id": "c", "id-token": canary + "-token", "refresh-token": canary + "-token",
			}}
		},
		"a14-proxy": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo, a *attacker, _ string) {
			c.Server, c.ProxyURL = "https://192.0.2.1:6443", a.URL
		},
		"a13-client-certificate": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, _ *attacker, file string) {
			u.ClientCertificate, u.ClientKey = file, file
		},
		"a13-client-key": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, _ *attacker, file string) {
			u.ClientKey = file
		},
		"a13-ca": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo, _ *attacker, file string) {
			c.CertificateAuthorityData, c.CertificateAuthority = nil, file
		},
		"a14-insecure": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo, _ *attacker, _ string) {
			c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
		},
		"a14-no-ca": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo, _ *attacker, _ string) {
			c.CertificateAuthorityData = nil
		},
		"a14-impersonation": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, _ *attacker, _ string) {
			u.Impersonate, u.ImpersonateGroups = canary, []string{"system:masters"}
		},
		"a14-password": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, _ *attacker, _ string) {
			u.Token, u.Username, u.Password = "", canary, canary
		},
		"a15-path": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo, a *attacker, _ string) {
			c.Server = a.URL + "/" + canary
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusedUncontacted(t, name, false, change)
		})
	}
	t.Run("a15-http", func(t *testing.T) {
		t.Parallel()
		refusedUncontacted(t, "a15-http", true, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo, _ *attacker, _ string) {
			c.CertificateAuthorityData = cluster.Workload.Config.CAData
		})
	})
}

func refusedUncontacted(t *testing.T, name string, plain bool, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, *attacker, string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), canary)
	if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAttacker(t, plain, words)
	kubeconfig := a.lure(t, func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { change(c, u, a, file) })
	object, err := theStage.Management.AddCluster(t.Context(), bed.ClusterSpec{
		Namespace: stage.Namespace, Name: "hostile-" + name, Kubeconfig: kubeconfig,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theStage.WaitEvent(t.Context(), object, string(reason.KubeconfigInvalid), soon); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // the next try is after a second
	a.untouched(t)
	if _, err := os.Stat(file + ".made"); err == nil {
		t.Error("the kubeconfig's program was run")
	}
}

// A15: a server that the kubeconfig names with good reason sends the approver on. The token stays.
func TestRedirectingAPIServer(t *testing.T) {
	together(t)
	thief := newAttacker(t, false, words)
	front := newAttacker(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.String(), http.StatusFound)
	})
	// The thief's certificate is trusted as well: only the redirect itself can be what stops.
	hostileServer(t, "redirect", front.lure(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.CertificateAuthorityData = append(append([]byte{}, front.CA...), thief.CA...)
	}), reason.ClusterUnavailable)
	if requests, _ := front.got(); len(requests) == 0 || !strings.Contains(requests[0], "Bearer "+canary+"-token") {
		t.Errorf("the named server got %q, expected the token", requests)
	}
	thief.untouched(t)
}

// What an API server says is not repeated; the last test looks for its words.
func TestTalkingAPIServer(t *testing.T) {
	together(t)
	a := newAttacker(t, false, words)
	hostileServer(t, "words", a.lure(t), reason.ClusterUnavailable)
}

func hostileServer(t *testing.T, name string, kubeconfig []byte, why reason.Reason) {
	t.Helper()
	object, err := theStage.Management.AddCluster(t.Context(), bed.ClusterSpec{
		Namespace: stage.Namespace, Name: "hostile-" + name, Kubeconfig: kubeconfig,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := approver.WaitLog(t.Context(), object.Name, "", string(why), soon); err != nil {
		t.Fatal(err)
	}
	if note, err := theStage.WaitEvent(t.Context(), object, string(why), 3*time.Minute); err != nil {
		t.Error(err)
	} else if strings.Contains(note, canary) {
		t.Errorf("note: %s", note)
	}
}

// A17: a clouds.yaml that names files, a profile or an insecure endpoint reads and contacts nothing.
// Each would work, at the attacker's, if what is wrong with it were followed.
func TestHostileClouds(t *testing.T) {
	together(t)
	for name, test := range map[string]struct {
		plain bool
		// hideCA leaves the attacker's CA out of the Secret.
		hideCA bool
		change func(t *testing.T, clouds string, a *attacker) string
		reason reason.Reason
	}{
		"a17-cacert-file": {hideCA: true, reason: reason.CloudUnavailable, change: func(t *testing.T, clouds string, a *attacker) string {
			return clouds + "    cacert: " + plant(t, a.CA) + "\n"
		}},
		"a17-profile": {reason: reason.CredentialInvalid, change: func(_ *testing.T, _ string, a *attacker) string {
			return fmt.Sprintf("clouds: {default: {profile: %q, cloud: %q, region_name: RegionOne}}", a.URL, canary)
		}},
		"a17-verify": {reason: reason.CredentialInsecure, change: func(_ *testing.T, clouds string, _ *attacker) string {
			return clouds + "    verify: false\n"
		}},
		"a17-http": {plain: true, reason: reason.CredentialInsecure, change: func(_ *testing.T, clouds string, _ *attacker) string {
			return clouds
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttacker(t, test.plain, words)
			ca := a.CA
			if test.hideCA || test.plain {
				ca = theStage.Cloud.CAPEM()
			}
			own := cluster.Project.AddApplicationCredential(name)
			clouds := test.change(t, own.CloudsYAML(func(c *simulator.Cloud) { c.AuthURL = a.URL + "/v3" }), a)
			askWith(t, name, clouds, ca, test.reason)
			requests, _ := a.got()
			if len(requests) > 0 {
				t.Errorf("the attacker got %q", requests)
			}
			if !test.hideCA {
				a.untouched(t)
			}
		})
	}
}

// A17: a cloud of the tenant's own gets the credential in its Secret and nothing else: no certificate
// from our disk, no token of another cloud, and not the right to send the approver elsewhere.
func TestCloudOfTheTenantsOwn(t *testing.T) {
	together(t)
	thief := newAttacker(t, false, words)
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		reason reason.Reason
	}{
		"a17-redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+r.URL.String(), http.StatusTemporaryRedirect)
		}, reason.CloudAnswerInvalid},
		"a17-words": {words, reason.CloudUnavailable},
		"a17-catalog": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", canary+"-token")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			endpoint := fmt.Sprintf(`[{"id":"e","interface":"public","region":"RegionOne","region_id":"RegionOne","url":%q}]`,
				strings.Replace(thief.URL, "https:", "http:", 1))
			_, _ = fmt.Fprintf(w, `{"token":{"expires_at":%q,"issued_at":%q,"methods":["application_credential"],"user":{"id":"u","name":"u"},
				"project":{"id":"p","name":"p","domain":{"id":"d","name":"d"}},"catalog":[
				{"id":"a","type":"compute","name":"nova","endpoints":%s},{"id":"b","type":"network","name":"neutron","endpoints":%s}]}}`,
				time.Now().Add(time.Hour).UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339), endpoint, endpoint)
		}, reason.CredentialInsecure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttacker(t, false, test.answer)
			own := cluster.Project.AddApplicationCredential(name)
			kubeconfig, err := cluster.Workload.KubeconfigAs(canary)
			if err != nil {
				t.Fatal(err)
			}
			config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			clouds := own.CloudsYAML(func(c *simulator.Cloud) { c.AuthURL = a.URL + "/v3" }) +
				"    cert: " + plant(t, config.CertData) + "\n    key: " + plant(t, config.KeyData) + "\n"
			// The thief is trusted as well: only the redirect itself can be what stops.
			askWith(t, name, clouds, append(append([]byte{}, a.CA...), thief.CA...), test.reason)
			requests, certificates := a.got()
			if len(requests) == 0 || !strings.Contains(requests[0], own.Secret) {
				t.Errorf("the tenant's cloud got %q, expected its own credential", requests)
			}
			if certificates > 0 {
				t.Error("a client certificate from a file was used")
			}
			for _, request := range requests {
				for _, secret := range []string{"Authorization:", "X-Auth-Token:", "Cookie:", cluster.Credential.Secret, played.Credential.Secret} {
					if strings.Contains(request, secret) {
						t.Errorf("the tenant's cloud got %s in %q", secret, request)
					}
				}
			}
		})
	}
	t.Cleanup(func() { thief.untouched(t) })
}

// plant writes a file for the approver to read if it did.
func plant(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), canary)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// askWith sends a request of a Machine that has a credential of its own, and waits for what becomes of it.
func askWith(t *testing.T, name, clouds string, ca []byte, why reason.Reason) {
	t.Helper()
	secret := credentialSecret(t, "hostile-"+name, clouds, ca)
	m := machine(t, name, func(s *bed.MachineSpec) { s.Credential = bed.Credential{Name: secret.Name, CloudName: "default"} })
	csr := ask(t, name, bed.RequestSpec{DNS: []string{name}, IPs: []netip.Addr{m.Address}})
	if why.Outcome() == reason.Refuse {
		refused(t, csr, m.Machine.Machine, why)
		return
	}
	if err := approver.WaitLog(t.Context(), cluster.Name, name, string(why), soon); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * time.Second) // and once more
}
