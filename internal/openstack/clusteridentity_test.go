package openstack

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

// identitySpec is the spec of an identity whose Secret is in the operator's namespace.
func identitySpec(more ...any) map[string]any {
	spec := map[string]any{"secretRef": map[string]any{"namespace": "capo-system", "name": "shared"}}
	for i := 0; i+1 < len(more); i += 2 {
		spec[more[i].(string)] = more[i+1]
	}
	return spec
}

// clusterIdentity makes the machine's credential an OpenStackClusterIdentity. The Secret of the
// tenant's own namespace is dropped, so that only the shared one can lead anywhere.
func (f *fixture) clusterIdentity(spec any) {
	f.objects.drop(&corev1.Secret{ObjectMeta: f.secretMeta()})
	f.objects.put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capo-system", Name: "shared", UID: "shared-uid"},
		Data:       map[string][]byte{keyClouds: []byte(f.credential.CloudsYAML()), keyCA: f.sim.CAPEM()},
	})
	f.putIdentity(spec)
	f.label(map[string]string{"team": "a"})
	f.identityRef(map[string]any{"type": "ClusterIdentity", "name": "everyone", "cloudName": "default"})
}

func (f *fixture) putIdentity(spec any) {
	identity := object("OpenStackClusterIdentity", "everyone", map[string]any{"spec": spec})
	identity.SetNamespace("")
	f.objects.put(identity)
}

func (f *fixture) label(labels map[string]string) {
	f.objects.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}})
}

func TestClusterIdentity(t *testing.T) {
	matchLabels := func(key, value string) map[string]any {
		return map[string]any{"matchLabels": map[string]any{key: value}}
	}
	expression := func(key, operator string, values ...any) map[string]any {
		e := map[string]any{"key": key, "operator": operator}
		if values != nil {
			e["values"] = values
		}
		return map[string]any{"matchExpressions": []any{e}}
	}
	selected := func(selector any) func(*fixture) {
		return func(f *fixture) { f.clusterIdentity(identitySpec("namespaceSelector", selector)) }
	}
	of := func(spec any) func(*fixture) { return func(f *fixture) { f.clusterIdentity(spec) } }
	for _, c := range []struct {
		name  string
		setup func(f *fixture)
		want  reason.Reason
	}{
		{"A21 no selector is for all", of(identitySpec()), ""},
		{"A21 no selector needs no Namespace", func(f *fixture) {
			f.clusterIdentity(identitySpec())
			f.objects.fail["Namespace"] = errors.New(canary)
		}, ""},
		{"A21 an empty selector is for all", selected(map[string]any{}), ""},
		{"A21 a null selector is for all", selected(nil), ""},
		{"A21 the label", selected(matchLabels("team", "a")), ""},
		{"A21 another value", selected(matchLabels("team", "b")), reason.CredentialNotAllowed},
		{"A21 another key", selected(matchLabels("owner", "a")), reason.CredentialNotAllowed},
		{"A21 one of two labels", selected(map[string]any{"matchLabels": map[string]any{"team": "a", "tier": "x"}}), reason.CredentialNotAllowed},
		{"A21 expression In", selected(expression("team", "In", "x", "a")), ""},
		{"A21 expression In, not in", selected(expression("team", "In", "x", "y")), reason.CredentialNotAllowed},
		{"A21 expression NotIn", selected(expression("team", "NotIn", "a")), reason.CredentialNotAllowed},
		{"A21 expression Exists", selected(expression("team", "Exists")), ""},
		{"A21 expression DoesNotExist", selected(expression("team", "DoesNotExist")), reason.CredentialNotAllowed},
		{"A21 label and expression", selected(map[string]any{
			"matchLabels": map[string]any{"team": "a"}, "matchExpressions": expression("tier", "Exists")["matchExpressions"],
		}), reason.CredentialNotAllowed},
		{"A21 a Namespace without labels", func(f *fixture) {
			selected(matchLabels("team", "a"))(f)
			f.label(nil)
		}, reason.CredentialNotAllowed},
		{"A21 labels of the Secret's Namespace do not count", func(f *fixture) {
			selected(matchLabels("team", "b"))(f)
			f.objects.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capo-system", Labels: map[string]string{"team": "b"}}})
		}, reason.CredentialNotAllowed},
		{"A21 an unknown operator", selected(expression("team", canary, "a")), reason.OwnershipRecordInvalid},
		{"A21 In without values", selected(expression("team", "In")), reason.OwnershipRecordInvalid},
		{"A21 a key that is none", selected(matchLabels("a b\n"+canary, "a")), reason.OwnershipRecordInvalid},
		{"A21 the selector is text", selected(canary), reason.OwnershipRecordInvalid},
		{"A21 the selector is a list", selected([]any{canary}), reason.OwnershipRecordInvalid},
		{"A21 matchLabels is a list", selected(map[string]any{"matchLabels": []any{canary}}), reason.OwnershipRecordInvalid},
		{"no identity", func(f *fixture) {
			f.clusterIdentity(identitySpec())
			f.identityRef(map[string]any{"type": "ClusterIdentity", "name": "x\n" + strings.Repeat("y", 5000), "cloudName": "default"})
		}, reason.CredentialMissing},
		{"no spec", of(nil), reason.OwnershipRecordInvalid},
		{"spec is text", of(canary), reason.OwnershipRecordInvalid},
		{"no secretRef", of(map[string]any{}), reason.OwnershipRecordInvalid},
		{"secretRef is text", of(map[string]any{"secretRef": canary}), reason.OwnershipRecordInvalid},
		{"secretRef without a name", of(map[string]any{"secretRef": map[string]any{"namespace": namespace}}), reason.OwnershipRecordInvalid},
		{"secretRef without a namespace", of(map[string]any{"secretRef": map[string]any{"name": "shared"}}), reason.OwnershipRecordInvalid},
		{"A21 the tenant's Secret of the same name does not count", func(f *fixture) {
			f.clusterIdentity(map[string]any{"secretRef": map[string]any{"namespace": "capo-system", "name": secretName}})
			f.setClouds(f.credential.CloudsYAML())
		}, reason.CredentialMissing},
		{"A21 a Secret is looked for in the tenant's namespace", func(f *fixture) {
			f.clusterIdentity(identitySpec())
			f.identityRef(map[string]any{"type": "Secret", "name": "shared", "cloudName": "default"})
		}, reason.CredentialMissing},
		{"the provider knows no identities", func(f *fixture) {
			f.clusterIdentity(identitySpec())
			f.mapper = meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: Group, Version: "v1beta1"}})
			f.mapper.Add(gvk("OpenStackCluster", "v1beta1"), meta.RESTScopeNamespace)
			f.source.Mapper = f.mapper
		}, reason.CredentialMissing},
		{"the identity cannot be read", func(f *fixture) {
			f.clusterIdentity(identitySpec())
			f.objects.fail["OpenStackClusterIdentity."+Group] = errors.New(canary)
		}, reason.ManagementUnavailable},
		{"the Namespace cannot be read", func(f *fixture) {
			selected(matchLabels("team", "a"))(f)
			f.objects.fail["Namespace"] = errors.New(canary)
		}, reason.ManagementUnavailable},
		{"the Namespace is gone", func(f *fixture) {
			selected(map[string]any{})(f)
			f.objects.drop(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		}, reason.ManagementUnavailable},
		{"the cluster's identityRef", func(f *fixture) {
			f.clusterIdentity(identitySpec())
			ref, _, _ := unstructured.NestedMap(f.owner.Infrastructure.Object, "spec", "identityRef")
			unstructured.RemoveNestedField(f.owner.Infrastructure.Object, "spec", "identityRef")
			f.objects.put(object("OpenStackCluster", "c1", map[string]any{"spec": map[string]any{"identityRef": ref}}))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			c.setup(f)
			if c.want == "" {
				f.wantHoldings(t, nil, s1)
				return
			}
			f.wantProblem(t, c.want)
			f.wantCalls(t, nil)
		})
	}
}

// TestClusterIdentityIsCheckedEachTime: a session that is cached is no permission (A21).
func TestClusterIdentityIsCheckedEachTime(t *testing.T) {
	f := start(t)
	selector := map[string]any{"matchLabels": map[string]any{"team": "a"}}
	f.clusterIdentity(identitySpec("namespaceSelector", selector))
	f.wantHoldings(t, nil, s1)
	f.sim.ResetRequests()

	f.label(map[string]string{"team": "b"})
	f.wantProblem(t, reason.CredentialNotAllowed)
	f.wantCalls(t, nil)
	f.label(map[string]string{"team": "a"})
	f.wantHoldings(t, nil, s1)
	f.wantCalls(t, map[simulator.Operation]int{simulator.OpServer: 1, simulator.OpPorts: 1})

	f.sim.ResetRequests()
	f.putIdentity(identitySpec("namespaceSelector", map[string]any{"matchLabels": map[string]any{"team": "c"}}))
	f.wantProblem(t, reason.CredentialNotAllowed)
	f.wantCalls(t, nil)
}

// TestReservedForWorkers: the addresses of the API server's load balancer (A08).
func TestReservedForWorkers(t *testing.T) {
	balancer := func(fields any) *unstructured.Unstructured {
		return object("OpenStackCluster", "c1", map[string]any{"status": map[string]any{"apiServerLoadBalancer": fields}})
	}
	for _, c := range []struct {
		name   string
		fields any
		labels map[string]string
		kind   string
		want   string
		reason reason.Reason
	}{
		{name: "A08 both of its addresses", fields: map[string]any{"ip": "203.0.113.9", "internalIP": "10.0.0.9"}, want: "203.0.113.9 10.0.0.9"},
		{name: "A08 one in IPv6", fields: map[string]any{"internalIP": "2001:db8::9"}, want: "2001:db8::9"},
		{name: "A08 a control plane machine may have them", fields: map[string]any{"ip": "203.0.113.9", "internalIP": "10.0.0.9"},
			labels: map[string]string{"cluster.x-k8s.io/control-plane": ""}},
		{name: "empty addresses", fields: map[string]any{"ip": "", "internalIP": ""}},
		{name: "no load balancer"},
		{name: "the cluster is of another provider", fields: map[string]any{"ip": "203.0.113.9"}, kind: "OtherCluster"},
		{name: "an address that is none", fields: map[string]any{"ip": canary}, reason: reason.OwnershipRecordInvalid},
		{name: "an internal address that is none", fields: map[string]any{"internalIP": "10.0.0.9/24"}, reason: reason.OwnershipRecordInvalid},
		{name: "an address is a number", fields: map[string]any{"ip": int64(9)}, reason: reason.OwnershipRecordInvalid},
		{name: "it is text", fields: canary, reason: reason.OwnershipRecordInvalid},
		{name: "unreadable, but of no use for a control plane machine", fields: canary, labels: map[string]string{"cluster.x-k8s.io/control-plane": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			if c.fields != nil {
				f.objects.put(balancer(c.fields))
			}
			f.owner.Machine.Labels = c.labels
			if c.kind != "" {
				f.owner.Cluster.Spec.InfrastructureRef.Kind = c.kind
			}
			evidence, err := f.ask(t.Context(), "10.0.0.5")
			if c.reason != "" {
				f.checkProblem(t, err, c.reason)
				f.wantCalls(t, nil)
				return
			}
			var got []string
			for _, r := range evidence.Reserved {
				got = append(got, r.Address.String())
				if !strings.Contains(r.What, "load balancer") {
					t.Errorf("%s is called %q", r.Address, r.What)
				}
			}
			if err != nil || strings.Join(got, " ") != c.want || len(evidence.Holdings) != 1 {
				t.Errorf("reserved %q, want %q; holdings %v, %v", got, c.want, evidence.Holdings, err)
			}
		})
	}
}
