package openstack

import (
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// options makes the source anew.
func (f *fixture) options(t *testing.T, options Options) {
	t.Helper()
	source, err := New(f.objects, f.mapper, options)
	if err != nil {
		t.Fatal(err)
	}
	f.source = source
}

func (f *fixture) setCloudsWithoutCA(cloudsYAML string) {
	f.setSecret(map[string][]byte{keyClouds: []byte(cloudsYAML)})
}

func TestDefaultCA(t *testing.T) {
	f := start(t)
	ca, otherCA, clouds := f.sim.CAPEM(), start(t).sim.CAPEM(), []byte(f.credential.CloudsYAML())
	for _, c := range []struct {
		name     string
		standard []byte
		data     map[string][]byte
		want     reason.Reason
	}{
		{"E59 without cacert", ca, map[string][]byte{keyClouds: clouds}, ""},
		{"with an empty cacert", ca, map[string][]byte{keyClouds: clouds, keyCA: {}}, ""},
		{"cacert wins", otherCA, map[string][]byte{keyClouds: clouds, keyCA: ca}, ""},
		{"a wrong cacert wins too", ca, map[string][]byte{keyClouds: clouds, keyCA: otherCA}, reason.CloudUnavailable},
		{"a broken cacert is not made good", ca, map[string][]byte{keyClouds: clouds, keyCA: []byte(canary)}, reason.CredentialInvalid},
		{"a wrong default", otherCA, map[string][]byte{keyClouds: clouds}, reason.CloudUnavailable},
		{"no default", nil, map[string][]byte{keyClouds: clouds}, reason.CloudUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.options(t, Options{CA: c.standard})
			f.setSecret(c.data)
			if c.want == "" {
				f.wantHoldings(t, nil, s1)
				return
			}
			f.wantProblem(t, c.want)
		})
	}
	for name, broken := range map[string][]byte{"text": []byte(canary), "white space": []byte("\n"), "half a certificate": ca[:len(ca)/2]} {
		t.Run("a default that is "+name, func(t *testing.T) {
			if source, err := New(f.objects, f.mapper, Options{CA: broken}); err == nil || source != nil {
				t.Errorf("got %v, %v", source, err)
			}
		})
	}
}

// TestPoolsAreShared: what thousands of clusters trust is in memory once.
func TestPoolsAreShared(t *testing.T) {
	ca, otherCA := start(t).sim.CAPEM(), start(t).sim.CAPEM()
	r, err := newRoots(otherCA)
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, bundle []byte) any {
		t.Helper()
		secret := &corev1.Secret{Data: map[string][]byte{keyCA: bundle}}
		secret.Name = name
		pool, err := r.of(secret)
		if err != nil || pool == nil {
			t.Fatalf("%v, %v", pool, err)
		}
		return pool
	}
	first := of("a", ca)
	if of("b", append([]byte(nil), ca...)) != first {
		t.Error("one content, two pools")
	}
	if of("a", otherCA) == first || of("a", nil) == first {
		t.Error("two contents, one pool")
	}
	if of("a", nil) != of("b", nil) {
		t.Error("two pools of the default")
	}
}

// TestAllowInsecure: only what the operator allows, and only for who asks for it (A17).
func TestAllowInsecure(t *testing.T) {
	verify := func(value bool) func(*simulator.Cloud) {
		return func(c *simulator.Cloud) { c.Verify = &value }
	}
	url, _ := listener(t, httptest.NewServer)
	plainCatalog := func(f *fixture) {
		// Whoever listens there is asked, and has no ports to show.
		f.sim.Inject(replaceIn(simulator.OpToken, f.sim.URL()+"/network", url+"/network"))
	}
	for _, c := range []struct {
		name             string
		config           simulator.Config
		clouds           []func(*simulator.Cloud)
		setup            func(*fixture)
		allowed, refused reason.Reason
	}{
		{"A17 http", simulator.Config{PlainHTTP: true}, nil, nil, "", reason.CredentialInsecure},
		{"A17 verify false", simulator.Config{}, []func(*simulator.Cloud){verify(false)}, nil, "", reason.CredentialInsecure},
		{"A17 verify true", simulator.Config{}, []func(*simulator.Cloud){verify(true)}, nil, reason.CloudUnavailable, reason.CloudUnavailable},
		{"A17 verify not set", simulator.Config{}, nil, nil, reason.CloudUnavailable, reason.CloudUnavailable},
		{"A17 an endpoint of http in the catalog", simulator.Config{}, []func(*simulator.Cloud){verify(false)}, plainCatalog,
			reason.CloudAnswerInvalid, reason.CredentialInsecure},
		{"A15 a redirect", simulator.Config{PlainHTTP: true}, nil, func(f *fixture) {
			f.sim.Inject(simulator.Fault{Operation: simulator.OpServer, Effect: simulator.Redirect(f.sim.URL() + "/" + canary)})
		}, reason.CloudAnswerInvalid, reason.CredentialInsecure},
	} {
		for _, allow := range []bool{true, false} {
			want, name := c.refused, c.name
			if allow {
				want, name = c.allowed, c.name+", allowed"
			}
			t.Run(name, func(t *testing.T) {
				f := start(t, c.config)
				f.options(t, Options{AllowInsecure: allow})
				f.setCloudsWithoutCA(f.credential.CloudsYAML(c.clouds...))
				if c.setup != nil {
					c.setup(f)
				}
				if want == "" {
					f.wantHoldings(t, []string{"192.0.2.1"}, s1)
					return
				}
				f.wantProblem(t, want)
				if !allow && want == reason.CredentialInsecure {
					f.wantCalls(t, nil)
				}
				if f.sim.Count("", simulator.OpOther) != 0 {
					t.Error("the redirect was followed")
				}
			})
		}
	}
}
