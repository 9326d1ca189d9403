package openstack

import (
	"context"
	"errors"
	"net/url"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// maxPages bounds a listing; gophercloud follows "next" links without looking whether they end.
const maxPages = 50

var errEndless = errors.New("too many pages")

// server checks that the server exists and belongs to the credential's project. Nothing else that
// Nova says is read: names, metadata and access addresses are free text, and its address list is a
// cache that a spoofed port gets into (A25, A26, A30).
func (s *session) server(ctx context.Context, id string) error {
	server, err := servers.Get(ctx, s.compute, id).Extract()
	if err != nil {
		return problem(callServer, err)
	}
	switch {
	case server.ID != id:
		return reason.New(reason.CloudAnswerInvalid, "%s: the answer is about another server", callServer)
	case server.Status == "UNKNOWN":
		// The cell that holds the server is down; Nova answers with what it remembers.
		return reason.New(reason.CloudUnavailable, "%s: its cell does not answer", callServer)
	case server.Status == "DELETED" || server.Status == "SOFT_DELETED":
		return reason.New(reason.ServerDeleted, "server status is %s", server.Status)
	case server.TenantID != s.project:
		return reason.New(reason.ServerOtherProject, "the server's project is not the one the credential is for")
	}
	return nil
}

// ports lists the ports that say they are the server's. Anybody in the project can make a port say
// so, which is why not all of them count.
func (s *session) ports(ctx context.Context, serverID string) ([]ports.Port, error) {
	var all []ports.Port
	err := pages(ctx, ports.List(s.network, query{"device_id": {serverID}}), func(page pagination.Page) error {
		found, err := ports.ExtractPorts(page)
		all = append(all, found...)
		return err
	})
	if err != nil {
		return nil, problem(callPorts, err)
	}
	return all, nil
}

// floatingIPs lists the floating IPs that are bound to any of the ports now.
func (s *session) floatingIPs(ctx context.Context, portIDs []string) ([]floatingips.FloatingIP, error) {
	var all []floatingips.FloatingIP
	err := pages(ctx, floatingips.List(s.network, query{"port_id": portIDs}), func(page pagination.Page) error {
		found, err := floatingips.ExtractFloatingIPs(page)
		all = append(all, found...)
		return err
	})
	if err != nil {
		return nil, problem(callFloatingIPs, err)
	}
	return all, nil
}

func pages(ctx context.Context, pager pagination.Pager, each func(pagination.Page) error) error {
	count := 0
	return pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		if count++; count > maxPages {
			return false, errEndless
		}
		return true, each(page)
	})
}

// query is a list filter. Neutron takes a repeated key as "any of"; gophercloud's own options can
// name each key only once.
type query url.Values

func (q query) ToPortListQuery() (string, error)       { return q.text() }
func (q query) ToFloatingIPListQuery() (string, error) { return q.text() }

func (q query) text() (string, error) {
	return (&url.URL{RawQuery: url.Values(q).Encode()}).String(), nil
}

var (
	_ ports.ListOptsBuilder       = query{}
	_ floatingips.ListOptsBuilder = query{}
)
