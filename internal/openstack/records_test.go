package openstack

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
)

const (
	uuid      = "0f0e0d0c-0b0a-4908-8706-050403020100"
	otherUUID = "1f0e0d0c-0b0a-4908-8706-050403020100"
)

func TestParseProviderID(t *testing.T) {
	for _, c := range []struct {
		name, id, region string
		ok               bool
	}{
		{"E63 without a region", "openstack:///" + uuid, "", true},
		{"E63 with a region", "openstack://RegionOne/" + uuid, "RegionOne", true},
		{"E63 four slashes", "openstack:////" + uuid, "", true},
		{"a region with a dash, a dot and a space", "openstack://eu-west 1.a/" + uuid, "eu-west 1.a", true},
		{"a region in UTF-8", "openstack://Zürich/" + uuid, "Zürich", true},
		{"a region that looks like an ID", "openstack://" + otherUUID + "/" + uuid, otherUUID, true},
		{"a region with an escape", "openstack://a%2Fb/" + uuid, "a%2Fb", true},
		{"a region with a line break", "openstack://a\nb/" + uuid, "a\nb", true},
		{"E63 two slashes", "openstack://" + uuid, "", false},
		{"E63 an ID alone", uuid, "", false},
		{"E63 a host name", "openstack://node-1", "", false},
		{"E63 a host name as ID", "openstack:///node-1", "", false},
		{"empty", "", "", false},
		{"no ID", "openstack:///", "", false},
		{"five slashes", "openstack://///" + uuid, "", false},
		{"four slashes and a region", "openstack://RegionOne//" + uuid, "", false},
		{"a path", "openstack://a/b/" + uuid, "", false},
		{"upper case", "openstack:///" + strings.ToUpper(uuid), "", false},
		{"one upper-case digit", "openstack:///" + strings.Replace(uuid, "e", "E", 1), "", false},
		{"another scheme", "aws:///" + uuid, "", false},
		{"the scheme in upper case", "OpenStack:///" + uuid, "", false},
		{"text before", " openstack:///" + uuid, "", false},
		{"text after", "openstack:///" + uuid + "0", "", false},
		{"a slash after", "openstack:///" + uuid + "/", "", false},
		{"a path after", "openstack:///" + uuid + "/../" + otherUUID, "", false},
		{"a query after", "openstack:///" + uuid + "?all_tenants=1", "", false},
		{"a line break after", "openstack:///" + uuid + "\n", "", false},
		{"a line before", "x\nopenstack:///" + uuid, "", false},
		{"without dashes", "openstack:///" + strings.ReplaceAll(uuid, "-", ""), "", false},
		{"braces", "openstack:///{" + uuid + "}", "", false},
		{"digits of another script", "openstack:///" + strings.Replace(uuid, "0", "０", 1), "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			region, id, err := parseProviderID(c.id)
			if !c.ok {
				(&fixture{}).checkProblem(t, err, reason.ProviderIDInvalid)
				return
			}
			if err != nil || region != c.region || id != uuid {
				t.Errorf("got %q %q, %v", region, id, err)
			}
		})
	}
}

// TestRecordsThatDoNotAgree: what the management cluster says is judged before any cloud is asked.
func TestRecordsThatDoNotAgree(t *testing.T) {
	machine := func(status map[string]any) func(*fixture) {
		return func(f *fixture) { f.owner.Infrastructure.Object["status"] = status }
	}
	server := func(content map[string]any) func(*fixture) {
		return func(f *fixture) { f.objects.put(object("OpenStackServer", "n1", content)) }
	}
	ports := func(list any) map[string]any {
		return map[string]any{"resources": map[string]any{"ports": list}}
	}
	for _, c := range []struct {
		name  string
		setup func(f *fixture)
		want  reason.Reason
	}{
		{"A23 OpenStackMachine names another server", machine(map[string]any{"instanceID": otherUUID}), reason.InstanceIDMismatch},
		{"A23 OpenStackServer names another server", server(resources(otherUUID)), reason.InstanceIDMismatch},
		{"A23 OpenStackMachine names another server, OpenStackServer the same", func(f *fixture) {
			machine(map[string]any{"instanceID": otherUUID})(f)
			server(resources(f.server.ID, f.port.ID))(f)
		}, reason.InstanceIDMismatch},
		{"A23 the ID in upper case", func(f *fixture) {
			machine(map[string]any{"instanceID": strings.ToUpper(f.server.ID) + "\n" + strings.Repeat("x", 5000)})(f)
		}, reason.InstanceIDMismatch},
		{"A23 providerID of no server", func(f *fixture) { f.owner.ProviderID = "openstack:///n1" }, reason.ProviderIDInvalid},
		{"instanceID is a number", machine(map[string]any{"instanceID": int64(5)}), reason.OwnershipRecordInvalid},
		{"OpenStackServer's instanceID is a list", server(map[string]any{"status": map[string]any{"instanceID": []any{}}}), reason.OwnershipRecordInvalid},
		{"OpenStackServer's status is text", server(map[string]any{"status": canary}), reason.OwnershipRecordInvalid},
		{"ports is text", machine(ports(canary)), reason.OwnershipRecordInvalid},
		{"resources is a list", machine(map[string]any{"resources": []any{}}), reason.OwnershipRecordInvalid},
		{"a port is text", machine(ports([]any{canary})), reason.OwnershipRecordInvalid},
		{"a port is null", machine(ports([]any{nil})), reason.OwnershipRecordInvalid},
		{"a port has no ID", machine(ports([]any{map[string]any{"name": canary}})), reason.OwnershipRecordInvalid},
		{"a port's ID is empty", machine(ports([]any{map[string]any{"id": ""}})), reason.OwnershipRecordInvalid},
		{"a port's ID is a number", machine(ports([]any{map[string]any{"id": int64(5)}})), reason.OwnershipRecordInvalid},
		{"OpenStackServer's port has no ID", server(map[string]any{"status": ports([]any{map[string]any{}})}), reason.OwnershipRecordInvalid},
		{"OpenStackServer is forbidden", func(f *fixture) {
			f.objects.fail["OpenStackServer."+Group] = apierrors.NewForbidden(schema.GroupResource{Resource: canary}, canary, errors.New(canary))
		}, reason.ManagementUnavailable},
		{"OpenStackServer cannot be read", func(f *fixture) {
			f.objects.fail["OpenStackServer."+Group] = errors.New(canary)
		}, reason.ManagementUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			c.setup(f)
			f.wantProblem(t, c.want)
			f.wantCalls(t, nil)
		})
	}
}

func TestRecordsThatAreMissing(t *testing.T) {
	for name, setup := range map[string]func(f *fixture){
		"E49 instanceID is empty": func(f *fixture) {
			f.owner.Infrastructure.Object["status"] = map[string]any{"instanceID": ""}
			f.objects.put(object("OpenStackServer", "n1", map[string]any{"status": map[string]any{"instanceID": ""}}))
		},
		"E49 no status after clusterctl move": func(f *fixture) { f.objects.put(object("OpenStackServer", "n1", nil)) },
		"status without resources": func(f *fixture) {
			f.owner.Infrastructure.Object["status"] = map[string]any{"instanceID": f.server.ID}
		},
		"OpenStackServer of another namespace and of another name": func(f *fixture) {
			other := object("OpenStackServer", "n1", resources(otherUUID, f.port.ID))
			other.SetNamespace("other")
			f.objects.put(other)
			f.objects.put(object("OpenStackServer", "n2", resources(otherUUID, f.port.ID)))
		},
		"the provider knows no OpenStackServer": func(f *fixture) {
			f.objects.fail["OpenStackServer."+Group] = errors.New("was read all the same")
			f.mapper = meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: Group, Version: "v1beta1"}})
			f.mapper.Add(gvk("OpenStackCluster", "v1beta1"), meta.RESTScopeNamespace)
			f.source.Mapper = f.mapper
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			setup(f)
			f.wantHoldings(t, nil, s1)
		})
	}
}

func TestIdentityRef(t *testing.T) {
	ofCluster := func(f *fixture, ref map[string]any) {
		unstructured.RemoveNestedField(f.owner.Infrastructure.Object, "spec", "identityRef")
		f.objects.put(object("OpenStackCluster", "c1", map[string]any{"spec": map[string]any{"identityRef": ref}}))
	}
	good := map[string]any{"name": secretName, "cloudName": "default"}
	for _, c := range []struct {
		name  string
		setup func(f *fixture)
		want  reason.Reason
	}{
		{"the cluster's", func(f *fixture) { ofCluster(f, good) }, ""},
		{"the machine's before the cluster's", func(f *fixture) {
			f.objects.put(object("OpenStackCluster", "c1", map[string]any{"spec": map[string]any{"identityRef": map[string]any{"name": "x"}}}))
		}, ""},
		{"without a type", func(f *fixture) { f.identityRef(good) }, ""},
		{"A21 a Secret is no ClusterIdentity", func(f *fixture) {
			f.identityRef(map[string]any{"type": "ClusterIdentity", "name": secretName, "cloudName": "default"})
		}, reason.CredentialMissing},
		{"A21 an unknown type", func(f *fixture) {
			f.identityRef(map[string]any{"type": "secret\n", "name": secretName, "cloudName": "default"})
		}, reason.CredentialNotSupported},
		{"no name", func(f *fixture) { f.identityRef(map[string]any{"cloudName": "default"}) }, reason.CredentialMissing},
		{"another Secret", func(f *fixture) { f.identityRef(map[string]any{"name": "x", "cloudName": "default"}) }, reason.CredentialMissing},
		{"a Secret name that is no name", func(f *fixture) {
			f.identityRef(map[string]any{"name": "x\n" + strings.Repeat("y", 5000), "cloudName": "default"})
		}, reason.CredentialMissing},
		{"the name is a number", func(f *fixture) { f.identityRef(map[string]any{"name": int64(5)}) }, reason.OwnershipRecordInvalid},
		{"identityRef is text", func(f *fixture) {
			f.owner.Infrastructure.Object["spec"] = map[string]any{"identityRef": canary}
		}, reason.OwnershipRecordInvalid},
		{"neither has one", func(f *fixture) {
			ofCluster(f, good)
			f.objects.put(object("OpenStackCluster", "c1", nil))
		}, reason.CredentialMissing},
		{"the cluster's is text", func(f *fixture) {
			ofCluster(f, good)
			f.objects.put(object("OpenStackCluster", "c1", map[string]any{"spec": map[string]any{"identityRef": canary}}))
		}, reason.OwnershipRecordInvalid},
		{"no OpenStackCluster", func(f *fixture) {
			ofCluster(f, good)
			f.owner.Cluster.Spec.InfrastructureRef.Name = "c2"
		}, reason.InfrastructureMissing},
		{"the cluster is of another provider", func(f *fixture) {
			ofCluster(f, good)
			f.owner.Cluster.Spec.InfrastructureRef.Kind = "OtherCluster"
		}, reason.CredentialMissing},
		{"the cluster is of another group", func(f *fixture) {
			ofCluster(f, good)
			f.owner.Cluster.Spec.InfrastructureRef.APIGroup = "example.org"
		}, reason.CredentialMissing},
		{"OpenStackCluster cannot be read", func(f *fixture) {
			ofCluster(f, good)
			f.objects.fail["OpenStackCluster."+Group] = errors.New(canary)
		}, reason.ManagementUnavailable},
		{"the Secret cannot be read", func(f *fixture) { f.objects.fail["Secret"] = errors.New(canary) }, reason.ManagementUnavailable},
		{"the Secret is forbidden", func(f *fixture) {
			f.objects.fail["Secret"] = apierrors.NewForbidden(schema.GroupResource{Resource: canary}, canary, errors.New(canary))
		}, reason.ManagementUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			c.setup(f)
			if c.want == "" {
				f.wantHoldings(t, nil, s1)
				return
			}
			f.wantProblem(t, c.want)
			f.wantCalls(t, map[simulator.Operation]int{})
		})
	}
}
