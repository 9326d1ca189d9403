package openstack

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

func TestOneTokenForManyVerdicts(t *testing.T) {
	f := start(t)
	const verdicts = 20
	for range verdicts {
		f.wantHoldings(t, nil, s1)
	}
	f.wantCalls(t, map[simulator.Operation]int{simulator.OpToken: 1, simulator.OpServer: verdicts, simulator.OpPorts: verdicts})
	if n := f.sim.Count("", simulator.OpDiscovery); n > 1 {
		t.Errorf("version documents were read %d times", n)
	}
}

func TestOneTokenForVerdictsAtTheSameTime(t *testing.T) {
	f := start(t)
	const verdicts = 50
	ask := func() {
		var group sync.WaitGroup
		for range verdicts {
			group.Go(func() {
				if _, err := f.ask(t.Context(), "10.0.0.5"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	ask()
	f.wantCalls(t, map[simulator.Operation]int{simulator.OpToken: 1, simulator.OpServer: verdicts, simulator.OpPorts: verdicts})
	f.credential.RevokeTokens()
	f.sim.ResetRequests()
	ask()
	if n := f.sim.Count("", simulator.OpToken); n != 1 {
		t.Errorf("after the token was revoked, %d were asked for", n)
	}
}

func TestRevokedToken(t *testing.T) {
	f := start(t)
	f.wantHoldings(t, nil, s1)
	for range 3 {
		f.credential.RevokeTokens()
		f.sim.ResetRequests()
		f.wantHoldings(t, nil, s1)
		if n := f.sim.Count("", simulator.OpToken); n != 1 {
			t.Errorf("%d tokens were asked for", n)
		}
	}
}

func TestDeletedCredential(t *testing.T) {
	for name, make := range map[string]func(f *fixture) *simulator.Credential{
		"application credential": func(f *fixture) *simulator.Credential { return f.credential },
		"user":                   func(f *fixture) *simulator.Credential { return f.project.AddUser("user", canary) },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			credential := make(f)
			f.setClouds(credential.CloudsYAML())
			f.wantHoldings(t, nil, s1)
			credential.Delete()
			f.wantProblem(t, reason.CredentialRejected)
			f.wantProblem(t, reason.CredentialRejected)
			f.setClouds(f.project.AddApplicationCredential("next").CloudsYAML())
			f.wantHoldings(t, nil, s1)
		})
	}
}

func TestExpiringTokenIsRenewedBefore(t *testing.T) {
	f := start(t, simulator.Config{TokenLifetime: renewBefore + time.Second})
	f.wantHoldings(t, nil, s1)
	time.Sleep(1100 * time.Millisecond)
	f.wantHoldings(t, nil, s1)
	if n := f.sim.Count("", simulator.OpToken); n != 2 {
		t.Errorf("%d tokens were asked for", n)
	}
	for _, r := range f.sim.Requests() {
		if r.Status == http.StatusUnauthorized {
			t.Errorf("%s was refused", r.Path)
		}
	}
}

// TestMovedEndpoint: a new token comes with a new catalog, and the endpoints are those of it.
func TestMovedEndpoint(t *testing.T) {
	f := start(t, simulator.Config{TokenLifetime: renewBefore + time.Second})
	f.wantHoldings(t, nil, s1)
	f.sim.Inject(replaceIn(simulator.OpToken, f.sim.URL()+"/compute", f.sim.URL()+"/internal/compute"))
	f.sim.Inject(simulator.Fault{Service: simulator.Nova, Effect: f.sim.Status(http.StatusGone, canary), Match: func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/compute")
	}})
	f.wantProblem(t, reason.CloudAnswerInvalid)
	time.Sleep(1100 * time.Millisecond)
	f.wantHoldings(t, nil, s1)
}

// TestChangedSecret: the session of the old content is not used again (A21).
func TestChangedSecret(t *testing.T) {
	f := start(t)
	f.wantHoldings(t, nil, s1)
	f.wantHoldings(t, nil, s1)

	next := f.project.AddApplicationCredential("next")
	f.setClouds(next.CloudsYAML())
	f.sim.ResetRequests()
	f.wantHoldings(t, nil, s1)
	for _, r := range f.sim.Requests() {
		if r.Credential != next.ID {
			t.Errorf("%s was asked with the old credential", r.Path)
		}
	}

	// The same name again, after another Secret was in its place.
	secret := &corev1.Secret{ObjectMeta: f.secretMeta(), Data: map[string][]byte{keyClouds: []byte(f.credential.CloudsYAML()), keyCA: f.sim.CAPEM()}}
	secret.UID = "another-uid"
	f.objects.version = 1 // the resourceVersion of the first
	f.objects.put(secret)
	f.sim.ResetRequests()
	f.wantHoldings(t, nil, s1)
	f.wantCalls(t, map[simulator.Operation]int{simulator.OpToken: 1, simulator.OpServer: 1, simulator.OpPorts: 1})
}

// TestTwoCloudsInOneSecret have a session each.
func TestTwoCloudsInOneSecret(t *testing.T) {
	f := start(t)
	other := f.sim.AddProject("other")
	second := other.AddApplicationCredential("approver").CloudsYAML(func(c *simulator.Cloud) { c.Name = "second" })
	f.setClouds(f.credential.CloudsYAML() + strings.TrimPrefix(second, "clouds:\n"))
	f.wantHoldings(t, nil, s1)
	f.identityRef(map[string]any{"name": secretName, "cloudName": "second"})
	f.wantProblem(t, reason.ServerNotFound) // A22
	f.identityRef(map[string]any{"name": secretName, "cloudName": "default"})
	f.wantHoldings(t, nil, s1)
	if n := f.sim.Count("", simulator.OpToken); n != 2 {
		t.Errorf("%d tokens were asked for", n)
	}
}
