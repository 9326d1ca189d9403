package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// newNode starts a node while the approver runs, and keeps the promise about it.
func (p *play) newNode(ctx context.Context, m *stage.Machine) error {
	if _, err := p.cluster.StartNode(ctx, m); err != nil {
		return err
	}
	if err := p.reachable(ctx, m); err != nil {
		return err
	}
	requests, err := p.cluster.Workload.Requests(ctx, m.Server.Name)
	if err != nil || len(requests) == 0 {
		return errors.Join(err, fmt.Errorf("node %s has no request any more", m.Server.Name))
	}
	took, ok := p.clock.Approval(requests[len(requests)-1].Name)
	if !ok || took > promise {
		return fmt.Errorf("kubelet %s waited %s for its approval, promised is %s", m.Server.Name, took, promise)
	}
	p.say("Kubelet %s joins: asked, judged, approved in %d ms, reachable", m.Server.Name, took.Milliseconds())
	return nil
}

// floating attaches a floating IP to a running server. The cloud controller manager would write it
// into the Node's status; the kubelet then asks for a certificate with it.
func (p *play) floating(ctx context.Context, m *stage.Machine) error {
	name := m.Server.Name
	before, err := p.cluster.Workload.Requests(ctx, name)
	if err != nil {
		return err
	}
	fip := p.cluster.Project.AddFloatingIP("203.0.113.10", m.Port.ID)
	addresses, err := p.cluster.Workload.NodeAddresses(ctx, name)
	if err != nil {
		return err
	}
	addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: fip.Address})
	if err := p.cluster.Workload.SetAddresses(ctx, name, addresses); err != nil {
		return err
	}
	csr, err := p.cluster.WaitRequests(ctx, name, len(before)+1, time.Minute)
	if err != nil {
		return err
	}
	if err := p.cluster.WaitApproved(ctx, csr.Name, 20*time.Second); err != nil {
		return err
	}
	took, _ := p.clock.Approval(csr.Name)
	p.say("Floating IP %s is attached to %s: its kubelet asks again (%s), approved in %d ms", fip.Address, name, csr.Name, took.Milliseconds())
	return nil
}

// neighbour lets one node ask for another's address with its own credentials.
func (p *play) neighbour(ctx context.Context, thief, victim *stage.Machine) error {
	node, err := p.cluster.Workload.Node(thief.Server.Name)
	if err != nil {
		return err
	}
	csr, _, err := bed.MakeRequest(ctx, node.Config, bed.RequestSpec{
		CommonName: "system:node:" + thief.Server.Name,
		DNS:        []string{thief.Server.Name},
		IPs:        []netip.Addr{thief.Address, victim.Address},
	})
	if err != nil {
		return err
	}
	p.say("Node %s, taken over, asks for the address %s of %s as well (%s)", thief.Server.Name, victim.Address, victim.Server.Name, csr.Name)
	note, err := p.stage.WaitEvent(ctx, thief.Machine.Machine, string(reason.AddressNotOwned), 20*time.Second)
	if err != nil {
		return err
	}
	if !strings.Contains(note, victim.Address.String()) {
		return fmt.Errorf("the Event does not name the address %s: %s", victim.Address, note)
	}
	if err := p.cluster.WaitApproved(ctx, csr.Name, 2*time.Second); err == nil {
		return fmt.Errorf("request %s for another node's address was approved", csr.Name)
	}
	p.say("It stays pending. Event on Machine %s: %s: %s", thief.Machine.Machine.Name, reason.AddressNotOwned, note)
	return nil
}

// impostor registers a node with another server's provider ID. Cluster API then takes it for that
// server's node.
func (p *play) impostor(ctx context.Context, victim *stage.Machine) error {
	const name = "impostor"
	config, err := p.cluster.Workload.As("system:node:"+name, "system:nodes")
	if err != nil {
		return err
	}
	if err := p.cluster.RegisterNode(ctx, config, name, "openstack:///"+victim.Server.ID); err != nil {
		return err
	}
	if err := p.stage.LinkNode(ctx, victim.Machine.Machine, name); err != nil {
		return err
	}
	csr, _, err := bed.MakeRequest(ctx, config, bed.RequestSpec{
		CommonName: "system:node:" + name, DNS: []string{name}, IPs: []netip.Addr{victim.Address},
	})
	if err != nil {
		return err
	}
	p.say("A node %q registers with the provider ID of %s and asks for its address (%s)", name, victim.Server.Name, csr.Name)
	note, err := p.stage.WaitEvent(ctx, victim.Machine.Machine, string(reason.NameMismatch), 20*time.Second)
	if err != nil {
		return err
	}
	if err := p.cluster.WaitApproved(ctx, csr.Name, 2*time.Second); err == nil {
		return fmt.Errorf("request %s of a node that took another server's identity was approved", csr.Name)
	}
	p.say("It stays pending. Event on Machine %s: %s: %s", victim.Machine.Machine.Name, reason.NameMismatch, note)
	return nil
}
