package owner

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

const (
	ns    = "magnum-system"
	group = "infrastructure.cluster.x-k8s.io"
	id    = "openstack:///11111111-1111-1111-1111-111111111111"
)

var clusterKey = client.ObjectKey{Namespace: ns, Name: "c1"}

func cluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "c1"}}
	for _, f := range change {
		f(c)
	}
	return c
}

// serverOf gives each Machine a server of its own; m1's is id.
func serverOf(machine string) string {
	if machine == "m1" {
		return id
	}
	return fmt.Sprintf("openstack:///22222222-2222-2222-2222-%012x", crc32.ChecksumIEEE([]byte(machine)))
}

// machine is a Machine of cluster c1 whose infrastructure machine has the given name, with that.
func machine(name, infra string, change ...func(*clusterv1.Machine, *unstructured.Unstructured)) []client.Object {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c1", ProviderID: serverOf(name),
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "OpenStackMachine", Name: infra},
		},
	}
	i := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"providerID": serverOf(name)}}}
	i.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: "OpenStackMachine"})
	i.SetNamespace(ns)
	i.SetName(infra)
	yes := true
	i.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Machine", Name: name, UID: m.UID, Controller: &yes}})
	for _, f := range change {
		f(m, i)
	}
	return []client.Object{m, i}
}

// same gives a machine m1's server.
func same(m *clusterv1.Machine, i *unstructured.Unstructured) {
	m.Spec.ProviderID = id
	i.Object["spec"] = map[string]any{"providerID": id}
}

func finder(t *testing.T, domains []string, objects ...client.Object) *Finder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: group, Version: "v1beta1"}})
	mapper.Add(schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: "OpenStackMachine"}, meta.RESTScopeNamespace)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...)
	indexer := indexerFunc(func(o client.Object, field string, extract client.IndexerFunc) { builder.WithIndex(o, field, extract) })
	if err := SetupIndexes(t.Context(), indexer, domains); err != nil {
		t.Fatal(err)
	}
	return &Finder{
		Reader: builder.Build(), Mapper: mapper, Domains: domains,
		Supported: func(k schema.GroupKind) bool { return k.Kind == "OpenStackMachine" },
	}
}

type indexerFunc func(client.Object, string, client.IndexerFunc)

func (f indexerFunc) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	f(o, field, extract)
	return nil
}

func join(lists ...[]client.Object) []client.Object { return slices.Concat(lists...) }

func TestFind(t *testing.T) {
	one := func(infra string, c ...change) []client.Object {
		return join([]client.Object{cluster()}, machine("m1", infra, c...))
	}
	for _, test := range []struct {
		name    string
		domains []string
		objects []client.Object
		node    string
		reason  reason.Reason // empty: found
		about   string        // the Machine that is told, if any
	}{
		{name: "E43 node cli-71 of machine cli-71", objects: one("cli-71"), node: "cli-71", about: "m1"},
		{name: "E45 machine web.1, node web-1", objects: one("web.1"), node: "web-1", about: "m1"},
		{name: "E45 machine web.1, node web.1", objects: one("web.1"), node: "web.1", about: "m1"},
		{name: "E45 machine web.1, node web2", objects: one("web.1"), node: "web2", reason: reason.NoMachine},
		{name: "E46 node-domain given", domains: []string{"novalocal"}, objects: one("n1"), node: "n1.novalocal", about: "m1"},
		{name: "E46 node-domain not given", objects: one("n1"), node: "n1.novalocal", reason: reason.NoMachine},
		{name: "E57 node without a Machine", objects: one("n1"), node: "n9", reason: reason.NoMachine},
		{name: "E66 localhost.localdomain", objects: one("n1"), node: "localhost.localdomain", reason: reason.NoMachine},
		{name: "nodeRef names the node, the infrastructure machine another name (A03)", objects: one("n1", func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
			m.Status.NodeRef.Name = "n2"
		}), node: "n2", reason: reason.NameMismatch, about: "m1"},
		{name: "nodeRef of another Machine never selects (A03)", objects: join(one("n1", func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
			m.Status.NodeRef.Name = "n2"
		}), machine("m2", "n2")), node: "n2", about: "m2"},
		{name: "two Machines with one server", objects: join(one("n1"), machine("m2", "n2", same)), node: "n2", reason: reason.AmbiguousMachine, about: "m2"},
		{name: "two Machines with one server, one with a region", objects: join(one("n1"), machine("m2", "n2", func(m *clusterv1.Machine, i *unstructured.Unstructured) {
			m.Spec.ProviderID = strings.Replace(id, "///", "//RegionOne/", 1)
			i.Object["spec"] = map[string]any{"providerID": m.Spec.ProviderID}
		})), node: "n2", reason: reason.AmbiguousMachine, about: "m2"},
		{name: "E48 nodeRef is not waited for (A04, A32)", objects: one("n1"), node: "n1", about: "m1"},
		{name: "two Machines with one name", objects: join(one("web.1"), machine("m2", "web-1")), node: "web-1", reason: reason.AmbiguousMachine},
		{name: "two Machines share a form that the node does not go by", objects: join(one("web.1"), machine("m2", "web-1")), node: "web.1", reason: reason.AmbiguousMachine},
		{name: "two Machines share what is left after the cut at 63", objects: join(one(strings.Repeat("a", 63)+"x"), machine("m2", strings.Repeat("a", 63)+"y")),
			node: strings.Repeat("a", 63), reason: reason.AmbiguousMachine},
		{name: "E69 Machine of another cluster in the namespace (A20)", objects: one("n1", func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
			m.Spec.ClusterName = "c2"
		}), node: "n1", reason: reason.NoMachine},
		{name: "label of another cluster (A20)", objects: one("n1", func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
			m.Labels[clusterv1.ClusterNameLabel] = "c2"
		}), node: "n1", reason: reason.MachineNotMember, about: "m1"},
		{name: "unsupported kind", objects: one("n1", func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
			m.Spec.InfrastructureRef.Kind = "AWSMachine"
		}), node: "n1", reason: reason.InfrastructureNotSupported, about: "m1"},
		{name: "infrastructure object missing", objects: one("n1")[:2], node: "n1", reason: reason.InfrastructureMissing, about: "m1"},
		{name: "infrastructure object of another Machine (A23)", objects: one("n1", func(_ *clusterv1.Machine, i *unstructured.Unstructured) {
			i.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Machine", Name: "m1", UID: "another", Controller: new(true)}})
		}), node: "n1", reason: reason.InfrastructureNotOwned, about: "m1"},
		{name: "owner, but not its controller (A23)", objects: one("n1", func(m *clusterv1.Machine, i *unstructured.Unstructured) {
			i.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Machine", Name: "m1", UID: m.UID}})
		}), node: "n1", reason: reason.InfrastructureNotOwned, about: "m1"},
		{name: "E49 providerID of the infrastructure object empty", objects: one("n1", func(_ *clusterv1.Machine, i *unstructured.Unstructured) {
			i.Object["spec"] = map[string]any{}
		}), node: "n1", reason: reason.ProviderIDMissing, about: "m1"},
		{name: "E49 providerID of the Machine empty", objects: one("n1", func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
			m.Spec.ProviderID = ""
		}), node: "n1", reason: reason.ProviderIDMissing, about: "m1"},
		{name: "E63 providerIDs differ (A23)", objects: one("n1", func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
			m.Spec.ProviderID = "openstack:///22222222-2222-2222-2222-222222222222"
		}), node: "n1", reason: reason.ProviderIDMismatch, about: "m1"},
		{name: "providerID is a number", objects: one("n1", func(_ *clusterv1.Machine, i *unstructured.Unstructured) {
			i.Object["spec"] = map[string]any{"providerID": int64(7)}
		}), node: "n1", reason: reason.OwnershipRecordInvalid, about: "m1"},
		{name: "E69 Machine is being deleted", objects: one("n1", func(m *clusterv1.Machine, _ *unstructured.Unstructured) {
			m.DeletionTimestamp, m.Finalizers = new(metav1.Now()), []string{"f"}
		}), node: "n1", about: "m1"},
		{name: "E69 Cluster is paused", objects: join([]client.Object{cluster(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })}, machine("m1", "n1")),
			node: "n1", about: "m1"},
		{name: "service range unreadable", objects: join([]client.Object{cluster(func(c *clusterv1.Cluster) {
			c.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.96.0.0"}
		})}, machine("m1", "n1")), node: "n1", reason: reason.OwnershipRecordInvalid, about: "m1"},
		{name: "pod range unreadable", objects: join([]client.Object{cluster(func(c *clusterv1.Cluster) {
			c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"192.168.0.0/16", "x"}
		})}, machine("m1", "n1")), node: "n1", reason: reason.OwnershipRecordInvalid, about: "m1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := finder(t, test.domains, test.objects...).Find(t.Context(), clusterKey, test.node)
			if got := reasonOf(err); got != test.reason {
				t.Fatalf("Find: %v, expected reason %q", err, test.reason)
			}
			about := ""
			if o.Machine != nil {
				about = o.Machine.Name
			}
			if about != test.about {
				t.Errorf("the Machine to tell is %q, expected %q", about, test.about)
			}
			if test.reason == "" && (o.ProviderID != o.Machine.Spec.ProviderID || o.Infrastructure == nil || !slices.Contains(o.Facts.Names, test.node)) {
				t.Errorf("incomplete owner: %+v", o)
			}
		})
	}
}

func reasonOf(err error) reason.Reason {
	if err == nil {
		return ""
	}
	var p *reason.Problem
	if !errors.As(err, &p) {
		return "not a Problem"
	}
	return p.Reason
}

// What an API server says is not repeated, and a failed read is never a fact about the machine.
func TestFindUnavailable(t *testing.T) {
	for _, fails := range []string{"Cluster", "MachineList", "OpenStackMachine"} {
		t.Run(fails, func(t *testing.T) {
			f := finder(t, nil, join([]client.Object{cluster()}, machine("m1", "n1"))...)
			kindOf := func(o runtime.Object) string {
				if gvk := o.GetObjectKind().GroupVersionKind(); gvk.Kind != "" {
					return gvk.Kind
				}
				switch o.(type) {
				case *clusterv1.Cluster:
					return "Cluster"
				case *clusterv1.MachineList:
					return "MachineList"
				}
				return ""
			}
			f.Reader = interceptor.NewClient(f.Reader.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if kindOf(o) == fails {
						return errors.New("canary: bearer token abc")
					}
					return c.Get(ctx, key, o, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if kindOf(l) == fails {
						return errors.New("canary: bearer token abc")
					}
					return c.List(ctx, l, opts...)
				},
			})
			_, err := f.Find(t.Context(), clusterKey, "n1")
			if reasonOf(err) != reason.ManagementUnavailable || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFacts(t *testing.T) {
	c := cluster(func(c *clusterv1.Cluster) {
		c.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.32.0.7/24", "fd00::/108"}
		c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"192.168.0.0/16"}
		c.Spec.ControlPlaneEndpoint.Host = "203.0.113.9"
	})
	worker := machine("m1", "n1")[0].(*clusterv1.Machine)
	o, err := facts(c, worker, []string{"n1"})
	if err != nil {
		t.Fatal(err)
	}
	var reserved []string
	for _, r := range o.Reserved {
		reserved = append(reserved, r.Address.String())
	}
	if want := []string{"10.32.0.1", "fd00::1", "203.0.113.9"}; !slices.Equal(reserved, want) {
		t.Errorf("reserved for a worker: %v, expected %v", reserved, want)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("10.32.0.0/24"), netip.MustParsePrefix("fd00::/108"), netip.MustParsePrefix("192.168.0.0/16")}; !slices.Equal(o.ClusterRanges, want) {
		t.Errorf("cluster ranges: %v, expected %v", o.ClusterRanges, want)
	}

	controlPlane := worker.DeepCopy()
	controlPlane.Labels[clusterv1.MachineControlPlaneLabel] = ""
	if o, err = facts(c, controlPlane, nil); err != nil || len(o.Reserved) != 2 {
		t.Errorf("a control plane machine may have the endpoint's address: %v, %v", o.Reserved, err)
	}

	// E41: without ranges in the Cluster, kubeadm's default is what the API server takes 10.96.0.1 of.
	c.Spec.ClusterNetwork.Services.CIDRBlocks = nil
	if o, err = facts(c, controlPlane, nil); err != nil || o.Reserved[0].Address != netip.MustParseAddr("10.96.0.1") {
		t.Errorf("default service address: %v, %v", o.Reserved, err)
	}
}
