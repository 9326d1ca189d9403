package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

const (
	// maxPages and maxRows bound a list. A server has some ports, not hundreds.
	maxPages = 50
	maxRows  = 1000
	// maxIDs bounds one question: many web servers refuse URLs of more than 8 KiB, and a trunk may
	// have hundreds of subports.
	maxIDs = 100
)

var errUnclear = errors.New("the answer has no list")

// What is read of the answers, and nothing else. gophercloud's own types for them take some hundred
// times the memory of a hostile answer, and take an answer without a list for an empty list.
type (
	server struct {
		ID        string `json:"id"`
		Status    string `json:"status"`
		ProjectID string `json:"tenant_id"`
	}
	port struct {
		ID        string    `json:"id"`
		DeviceID  string    `json:"device_id"`
		ProjectID string    `json:"project_id"`
		TenantID  string    `json:"tenant_id"`
		Status    string    `json:"status"`
		FixedIPs  []fixedIP `json:"fixed_ips"`
		Trunk     struct {
			Subports []struct {
				ID string `json:"port_id"`
			} `json:"sub_ports"`
		} `json:"trunk_details"`
	}
	fixedIP struct {
		Address string `json:"ip_address"`
	}
	floatingIP struct {
		Address string `json:"floating_ip_address"`
		PortID  string `json:"port_id"`
	}
)

// server checks that the server exists and belongs to the credential's project. Nothing else that
// Nova says is read: names, metadata and access addresses are free text, and its address list is a
// cache that a spoofed port gets into (A25, A26, A30).
func (s *session) server(ctx context.Context, id string) error {
	var answer struct {
		Server server `json:"server"`
	}
	if err := get(ctx, s.compute, s.compute.ServiceURL("servers", id), &answer); err != nil {
		return problem(callServer, err)
	}
	switch found := answer.Server; {
	case found.ID != id:
		return reason.New(reason.CloudAnswerInvalid, "%s: the answer is about another server", callServer)
	case found.Status == "UNKNOWN":
		// The cell that holds the server is down; Nova answers with what it remembers.
		return reason.New(reason.CloudUnavailable, "%s: its cell does not answer", callServer)
	case found.Status == "DELETED" || found.Status == "SOFT_DELETED":
		return reason.New(reason.ServerDeleted, "server status is %s", found.Status)
	case found.ProjectID != s.project:
		return reason.New(reason.ServerOtherProject, "the server's project is not the one the credential is for")
	}
	return nil
}

// ports lists the ports that say they are the server's. Anybody in the project can make a port say
// so, which is why not all of them count. Neutron's filter may ignore case, the server's ID does not.
func (s *session) ports(ctx context.Context, serverID string) ([]port, error) {
	found, err := list[port](ctx, s.network, "ports", url.Values{"device_id": {serverID}})
	if err != nil {
		return nil, problem(callPorts, err)
	}
	return slices.DeleteFunc(found, func(p port) bool { return p.DeviceID != serverID }), nil
}

// portsByID lists the ports with the IDs that are the map's keys.
func (s *session) portsByID(ctx context.Context, ids map[string]*port) ([]port, error) {
	found, err := listAnyOf[port](ctx, s.network, "ports", "id", sortedKeys(ids))
	if err != nil {
		return nil, problem(callSubports, err)
	}
	return found, nil
}

// floatingIPs lists the floating IPs that are bound to any of the ports, the map's keys, now.
func (s *session) floatingIPs(ctx context.Context, ports map[string]portHolding) ([]floatingIP, error) {
	found, err := listAnyOf[floatingIP](ctx, s.network, "floatingips", "port_id", sortedKeys(ports))
	if err != nil {
		return nil, problem(callFloatingIPs, err)
	}
	return found, nil
}

// listAnyOf reads what has any of the values: Neutron takes a repeated key so. Without values it asks
// nothing, as Neutron would then list everything.
func listAnyOf[T any](ctx context.Context, c *gophercloud.ServiceClient, collection, key string, values []string) ([]T, error) {
	if len(values) > maxRows {
		return nil, errEndless
	}
	var all []T
	for some := range slices.Chunk(values, maxIDs) {
		found, err := list[T](ctx, c, collection, url.Values{key: some})
		if err != nil {
			return nil, err
		}
		if all = append(all, found...); len(all) > maxRows {
			return nil, errEndless
		}
	}
	return all, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// list reads all pages of a collection. Of the link to the next page only the query is taken: it
// cannot lead to another place, and it may be of http when Neutron does not know its own proxy.
func list[T any](ctx context.Context, c *gophercloud.ServiceClient, collection string, query url.Values) ([]T, error) {
	var all []T
	next := query.Encode()
	for range maxPages {
		var page map[string]json.RawMessage
		if err := get(ctx, c, c.ServiceURL(collection)+"?"+next, &page); err != nil {
			return nil, err
		}
		// Counted before they are decoded, which takes far more memory.
		var rows []json.RawMessage
		if json.Unmarshal(page[collection], &rows) != nil || rows == nil {
			return nil, errUnclear
		}
		if len(all)+len(rows) > maxRows {
			return nil, errEndless
		}
		for _, encoded := range rows {
			var row T
			if json.Unmarshal(encoded, &row) != nil {
				return nil, errUnclear
			}
			all = append(all, row)
		}
		var err error
		if next, err = nextPage(page[collection+"_links"]); err != nil {
			return nil, err
		}
		if next == "" || len(rows) == 0 {
			return all, nil
		}
	}
	return nil, errEndless
}

// nextPage returns the query of the link to the next page, "" when there is none.
func nextPage(encoded json.RawMessage) (string, error) {
	if len(encoded) == 0 {
		return "", nil
	}
	var links []struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	}
	if json.Unmarshal(encoded, &links) != nil {
		return "", errUnclear
	}
	for _, link := range links {
		if link.Rel != "next" {
			continue
		}
		target, err := url.Parse(link.Href)
		if err != nil || target.RawQuery == "" {
			return "", errUnclear
		}
		return target.RawQuery, nil
	}
	return "", nil
}

func get(ctx context.Context, c *gophercloud.ServiceClient, url string, into any) error {
	_, err := c.Get(ctx, url, into, nil) //nolint:bodyclose // read and closed by gophercloud
	return err
}
