package owner

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

type change = func(*clusterv1.Machine, *unstructured.Unstructured)

// recorded gives a Machine addresses in its status, each of a type and a text.
func recorded(typesAndTexts ...string) change {
	return func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
		for i := 0; i+1 < len(typesAndTexts); i += 2 {
			m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{
				Type: clusterv1.MachineAddressType(typesAndTexts[i]), Address: typesAndTexts[i+1],
			})
		}
	}
}

func inCluster(name string) change {
	return func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
		m.Spec.ClusterName, m.Labels[clusterv1.ClusterNameLabel] = name, name
	}
}

func TestOthers(t *testing.T) {
	for _, test := range []struct {
		name    string
		machine []client.Object // beside m1, whose address 10.0.0.5 is
		ask     []string        // 10.0.0.5 if there is nothing else
		want    []string        // names
		reason  reason.Reason
	}{
		{name: "A24 recorded for another Machine", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5")), want: []string{"m2"}},
		{name: "A24 as an external address", machine: machine("m2", "n2", recorded("ExternalIP", "10.0.0.5")), want: []string{"m2"}},
		{name: "the Machine itself is no other", machine: machine("m2", "n2")},
		{name: "another address", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.50"))},
		{name: "nothing asked", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5")), ask: []string{}},
		{name: "A20 another cluster of the namespace", machine: machine("m2", "n2", inCluster("c2"), recorded("InternalIP", "10.0.0.5"))},
		{name: "A20 unreadable in another cluster", machine: machine("m2", "n2", inCluster("c2"), recorded("InternalIP", "x"))},
		{name: "A24 IPv4 written as IPv6", machine: machine("m2", "n2", recorded("InternalIP", "::ffff:10.0.0.5")), want: []string{"m2"}},
		{name: "A24 IPv6 spelled out", machine: machine("m2", "n2", recorded("InternalIP", "2001:DB8:0:0:0:0:0:5")),
			ask: []string{"2001:db8::5"}, want: []string{"m2"}},
		{name: "A24 IPv6 with a zone", machine: machine("m2", "n2", recorded("InternalIP", "2001:db8::5%eth0")),
			ask: []string{"2001:db8::5"}, want: []string{"m2"}},
		{name: "names are no addresses", machine: machine("m2", "n2",
			recorded("Hostname", "n2", "InternalDNS", "n2.x", "ExternalDNS", "10.0.0.5"))},
		{name: "unreadable", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5/24")), reason: reason.OwnershipRecordInvalid},
		{name: "unreadable beside a good one", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5", "ExternalIP", "")),
			reason: reason.OwnershipRecordInvalid},
		{name: "two shared addresses, one Machine", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5", "InternalIP", "10.9.0.5")),
			ask: []string{"10.0.0.5", "10.9.0.5"}, want: []string{"m2"}},
		{name: "the same address twice", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5", "ExternalIP", "10.0.0.5")),
			want: []string{"m2"}},
		{name: "two Machines", machine: join(machine("m2", "n2", recorded("InternalIP", "10.0.0.5")),
			machine("m3", "n3", recorded("InternalIP", "10.0.0.5"))), want: []string{"m2", "m3"}},
		{name: "no infrastructure object", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5"))[:1]},
		{name: "E49 no providerID", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5"),
			func(m *clusterv1.Machine, _ *unstructured.Unstructured) { m.Spec.ProviderID = "" })},
		{name: "E49 no providerID of the infrastructure object", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5"),
			func(_ *clusterv1.Machine, i *unstructured.Unstructured) { i.Object["spec"] = map[string]any{} })},
		{name: "A23 providerIDs differ", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5"),
			func(m *clusterv1.Machine, _ *unstructured.Unstructured) { m.Spec.ProviderID += "0" }), reason: reason.ProviderIDMismatch},
		{name: "A23 infrastructure object of another Machine", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5"),
			func(_ *clusterv1.Machine, i *unstructured.Unstructured) { i.SetOwnerReferences(nil) }), reason: reason.InfrastructureNotOwned},
		{name: "unsupported kind", machine: machine("m2", "n2", recorded("InternalIP", "10.0.0.5"),
			func(m *clusterv1.Machine, _ *unstructured.Unstructured) { m.Spec.InfrastructureRef.Kind = "AWSMachine" }),
			reason: reason.InfrastructureNotSupported},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := finder(t, nil, join([]client.Object{cluster()}, machine("m1", "n1", recorded("InternalIP", "10.0.0.5")), test.machine)...)
			o, err := f.Find(t.Context(), clusterKey, "n1")
			if err != nil {
				t.Fatal(err)
			}
			if test.ask == nil {
				test.ask = []string{"10.0.0.5"}
			}
			var addresses []netip.Addr
			for _, text := range test.ask {
				addresses = append(addresses, netip.MustParseAddr(text))
			}
			others, err := f.Others(t.Context(), o, addresses)
			if got := reasonOf(err); got != test.reason {
				t.Fatalf("Others: %v, expected reason %q", err, test.reason)
			}
			if err != nil && (others != nil || !strings.Contains(err.Error(), "m2")) {
				t.Errorf("%v, with %d others", err, len(others))
			}
			var names []string
			for _, other := range others {
				names = append(names, other.Machine.Name)
				if other.ProviderID != serverOf(other.Machine.Name) || other.Infrastructure == nil || other.Cluster != o.Cluster {
					t.Errorf("incomplete owner: %+v", other)
				}
			}
			if slices.Sort(names); !slices.Equal(names, test.want) {
				t.Errorf("others %q, expected %q", names, test.want)
			}
		})
	}
}

// What cannot be read is never taken for nobody.
func TestOthersUnavailable(t *testing.T) {
	for _, fails := range []string{"the list of unreadable addresses", "the list by address", "OpenStackMachine"} {
		t.Run(fails, func(t *testing.T) {
			f := finder(t, nil, join([]client.Object{cluster()}, machine("m1", "n1"), machine("m2", "n2", recorded("InternalIP", "10.0.0.5")))...)
			o, err := f.Find(t.Context(), clusterKey, "n1")
			if err != nil {
				t.Fatal(err)
			}
			canary := errors.New("canary: bearer token abc")
			lists := 0
			f.Reader = interceptor.NewClient(f.Reader.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if o.GetObjectKind().GroupVersionKind().Kind == fails {
						return canary
					}
					return c.Get(ctx, key, o, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if lists++; (lists == 1 && strings.Contains(fails, "unreadable")) || (lists == 2 && strings.Contains(fails, "by address")) {
						return canary
					}
					return c.List(ctx, l, opts...)
				},
			})
			others, err := f.Others(t.Context(), o, []netip.Addr{netip.MustParseAddr("10.0.0.5")})
			if reasonOf(err) != reason.ManagementUnavailable || strings.Contains(err.Error(), "canary") || others != nil {
				t.Errorf("got %v, %v", others, err)
			}
		})
	}
}

// TestVersions: the version of an infrastructure object is the API server's choice. The provider's
// releases serve v1beta1, v1beta2 or both; only the path of a field matters here.
func TestVersions(t *testing.T) {
	for name, served := range map[string][]string{
		"v1beta1": {"v1beta1"}, "v1beta2": {"v1beta2"}, "v1beta2, and v1beta1 too": {"v1beta2", "v1beta1"},
		"v1beta1, and v1beta2 too": {"v1beta1", "v1beta2"},
	} {
		t.Run(name, func(t *testing.T) {
			var versions []schema.GroupVersion
			for _, version := range served {
				versions = append(versions, schema.GroupVersion{Group: group, Version: version})
			}
			mapper := meta.NewDefaultRESTMapper(versions)
			for _, version := range versions {
				mapper.Add(version.WithKind("OpenStackMachine"), meta.RESTScopeNamespace)
			}
			f := finder(t, nil, join([]client.Object{cluster()}, machine("m1", "n1")[:1])...)
			infra := machine("m1", "n1")[1].(*unstructured.Unstructured)
			infra.SetGroupVersionKind(versions[0].WithKind("OpenStackMachine"))
			infrastructure := fake.NewClientBuilder().WithRESTMapper(mapper).WithObjects(infra).Build()
			f.Mapper = mapper
			f.Reader = interceptor.NewClient(f.Reader.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if _, ok := o.(*unstructured.Unstructured); ok {
						return infrastructure.Get(ctx, key, o, opts...)
					}
					return c.Get(ctx, key, o, opts...)
				},
			})
			o, err := f.Find(t.Context(), clusterKey, "n1")
			if err != nil || o.Infrastructure.GroupVersionKind().Version != served[0] || o.ProviderID != id {
				t.Errorf("%+v, %v", o.Infrastructure, err)
			}
		})
	}
}
