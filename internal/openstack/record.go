package openstack

import (
	"context"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/owner"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// providerIDForm is what Cluster API's OpenStack provider and the cloud provider write:
// openstack:///UUID, or with a region between. Reports show a fourth slash too (CAPO#511). Anything
// else names no server (E63).
var providerIDForm = regexp.MustCompile(`^openstack://(?:([^/]*)/|//)([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)

// parseProviderID returns the region, which may be empty for any, and the server's ID.
func parseProviderID(id string) (region, serverID string, err error) {
	match := providerIDForm.FindStringSubmatch(id)
	if match == nil {
		return "", "", reason.New(reason.ProviderIDInvalid, "%s, expected openstack://[REGION]/SERVER-UUID", reason.Quote(id))
	}
	return match[1], match[2], nil
}

// records reads what the OpenStack provider recorded about the machine in the management cluster: it
// returns the IDs of the ports that it made, and fails when a recorded server is another one (A23).
// An OpenStackServer of the machine's name is the newer place for both; older providers have none.
func (s *Source) records(ctx context.Context, o owner.Owner, serverID string) (map[string]bool, error) {
	machine := o.Infrastructure
	name := client.ObjectKey{Namespace: machine.GetNamespace(), Name: machine.GetName()}
	server, err := owner.Read(ctx, s.Reader, s.Mapper, kind("OpenStackServer"), name)
	if err != nil {
		return nil, err
	}
	if err := sameInstance(machine, serverID); err != nil {
		return nil, err
	}
	if server == nil {
		return portIDs(machine)
	}
	if err := sameInstance(server, serverID); err != nil {
		return nil, err
	}
	ids, err := portIDs(server)
	if err == nil && len(ids) == 0 {
		return portIDs(machine)
	}
	return ids, err
}

// sameInstance: an empty ID is no objection, clusterctl move drops status.
func sameInstance(object *unstructured.Unstructured, serverID string) error {
	id, _, err := unstructured.NestedString(object.Object, "status", "instanceID")
	if err != nil {
		return undecodable(object, "status.instanceID", err)
	}
	if id != "" && id != serverID {
		return reason.New(reason.InstanceIDMismatch, "%s %s: status.instanceID is %s, spec.providerID names %s",
			object.GetKind(), object.GetName(), reason.Quote(id), serverID)
	}
	return nil
}

// portIDs reads status.resources.ports[].id.
func portIDs(object *unstructured.Unstructured) (map[string]bool, error) {
	const field = "status.resources.ports"
	list, _, err := unstructured.NestedSlice(object.Object, "status", "resources", "ports")
	if err != nil {
		return nil, undecodable(object, field, err)
	}
	ids := map[string]bool{}
	for _, item := range list {
		port, _ := item.(map[string]any)
		id, _, err := unstructured.NestedString(port, "id")
		if err != nil || id == "" {
			return nil, reason.New(reason.OwnershipRecordInvalid, "%s %s: %s is not of the expected form", object.GetKind(), object.GetName(), field)
		}
		ids[id] = true
	}
	return ids, nil
}
