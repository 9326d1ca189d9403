package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/openstack/simulator"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// ask sends a request as the node itself: whoever has taken it over can do the same.
func ask(t *testing.T, node string, spec bed.RequestSpec) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return askIn(t, cluster, node, spec)
}

func askIn(t *testing.T, c *stage.Cluster, node string, spec bed.RequestSpec) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	config, err := c.Workload.As("system:node:"+node, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	if spec.CommonName == "" {
		spec.CommonName = "system:node:" + node
	}
	csr, _, err := bed.MakeRequest(t.Context(), config, spec)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func machine(t *testing.T, name string, changes ...func(*bed.MachineSpec)) *stage.Machine {
	t.Helper()
	return machineIn(t, cluster, name, changes...)
}

func machineIn(t *testing.T, c *stage.Cluster, name string, changes ...func(*bed.MachineSpec)) *stage.Machine {
	t.Helper()
	m, err := c.AddMachine(t.Context(), name, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func approved(t *testing.T, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	approvedIn(t, cluster, csr)
}

func approvedIn(t *testing.T, c *stage.Cluster, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	if err := c.WaitApproved(t.Context(), csr.Name, soon); err != nil {
		t.Error(err)
	}
}

// refused waits for the Event and sees that the request is pending without any condition.
func refused(t *testing.T, csr *certificatesv1.CertificateSigningRequest, about client.Object, why reason.Reason, words ...string) {
	t.Helper()
	refusedIn(t, cluster, csr, about, why, words...)
}

func refusedIn(t *testing.T, c *stage.Cluster, csr *certificatesv1.CertificateSigningRequest, about client.Object, why reason.Reason, words ...string) {
	t.Helper()
	note, err := theStage.WaitEvent(t.Context(), about, string(why), 3*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range append(words, csr.Name) {
		if !strings.Contains(note, word) {
			t.Errorf("the Event lacks %q: %s", word, note)
		}
	}
	now, err := c.Workload.Requests(t.Context(), strings.TrimPrefix(csr.Spec.Username, "system:node:"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range now {
		if r.Name == csr.Name && (len(r.Status.Conditions) > 0 || len(r.Status.Certificate) > 0) {
			t.Errorf("request %s has conditions %v", r.Name, r.Status.Conditions)
		}
	}
}

func addrs(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func TestVerdicts(t *testing.T) {
	together(t)
	for name, test := range map[string]func(t *testing.T){
		"E09 A01 another node's name and address": func(t *testing.T) {
			victim, thief := machine(t, "e09-victim"), machine(t, "e09-thief")
			csr := ask(t, "e09-thief", bed.RequestSpec{DNS: []string{"e09-victim"}, IPs: []netip.Addr{victim.Address}})
			refused(t, csr, thief.Machine.Machine, reason.NameNotOwned, "e09-victim (NameNotOwned)", victim.Address.String()+" (AddressNotOwned)", thief.Address.String())
		},
		"E11 E12 A31 only an address, asked in the node's name by whoever holds the cluster's CA": func(t *testing.T) {
			m := machine(t, "e11")
			approved(t, ask(t, "e11", bed.RequestSpec{IPs: []netip.Addr{m.Address}}))
		},
		"A02 another's address in the own Node's status": func(t *testing.T) {
			victim, thief := machine(t, "a02-victim"), machine(t, "a02-thief")
			config, err := cluster.Workload.As("system:node:a02-thief", "system:nodes")
			if err != nil {
				t.Fatal(err)
			}
			if err := cluster.RegisterNode(t.Context(), config, "a02-thief", "openstack:///"+thief.Server.ID); err != nil {
				t.Fatal(err)
			}
			addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: victim.Address.String()}}
			err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				return cluster.Workload.SetAddresses(t.Context(), "a02-thief", addresses)
			})
			if err != nil {
				t.Fatal(err)
			}
			csr := ask(t, "a02-thief", bed.RequestSpec{DNS: []string{"a02-thief"}, IPs: []netip.Addr{victim.Address}})
			refused(t, csr, thief.Machine.Machine, reason.AddressNotOwned, victim.Address.String())
		},
		"E55 A09 five hundred requests of a node that does not exist": func(t *testing.T) {
			// A Machine whose name does not fit is linked to it, so that the Cluster's Events stay as they are.
			machine(t, "e55-linked", func(s *bed.MachineSpec) { s.NodeName = "e55-bogus" })
			for range 500 {
				ask(t, "e55-bogus", bed.RequestSpec{DNS: []string{"e55-bogus"}})
			}
			m := machine(t, "e55")
			csr := ask(t, "e55", bed.RequestSpec{DNS: []string{"e55"}, IPs: []netip.Addr{m.Address}})
			if err := cluster.WaitApproved(t.Context(), csr.Name, 5*time.Second); err != nil {
				t.Error(err)
			}
		},
		"E39 a subport of a trunk": func(t *testing.T) {
			m := machine(t, "e39")
			subport := cluster.Project.AddPort("", "10.68.0.9")
			theStage.Cloud.AddTrunk(m.Port.ID, subport.ID)
			approved(t, ask(t, "e39", bed.RequestSpec{DNS: []string{"e39"}, IPs: append(addrs("10.68.0.9"), m.Address)}))
		},
		"E33 A24 an overlapping network: another Machine holds the address too": func(t *testing.T) {
			victim, thief := machine(t, "a24-victim"), machine(t, "a24-thief")
			cluster.Project.AddPort(thief.Server.ID, victim.Address.String())
			csr := ask(t, "a24-thief", bed.RequestSpec{DNS: []string{"a24-thief"}, IPs: []netip.Addr{victim.Address}})
			refused(t, csr, thief.Machine.Machine, reason.AddressHeldByOther, victim.Address.String(), "a24-victim")
			refused(t, csr, victim.Machine.Machine, reason.AddressHeldByOther, "a24-thief")
			// The victim's own port is the provider's, so it is not kept from its certificate.
			approved(t, ask(t, "a24-victim", bed.RequestSpec{DNS: []string{"a24-victim"}, IPs: []netip.Addr{victim.Address}}))
		},
		"E51 only a name": func(t *testing.T) {
			machine(t, "e51")
			approved(t, ask(t, "e51", bed.RequestSpec{DNS: []string{"e51"}}))
		},
		"E02 another usage": func(t *testing.T) {
			m := machine(t, "e02")
			csr := ask(t, "e02", bed.RequestSpec{DNS: []string{"e02"}, Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth,
			}})
			refused(t, csr, m.Machine.Machine, reason.UsagesNotAllowed)
		},
		"E26 E27 E33 two networks, dual stack, other spelling": func(t *testing.T) {
			m := machine(t, "e33")
			cluster.Project.AddPort(m.Server.ID, "2001:DB8:0:0:0:0:0:5")
			approved(t, ask(t, "e33", bed.RequestSpec{DNS: []string{"e33"}, IPs: append(addrs("2001:db8::5"), m.Address)}))
		},
		"E34 E35 E37 a floating IP counts once it is attached": func(t *testing.T) {
			m := machine(t, "e37")
			fip := cluster.Project.AddFloatingIP("203.0.113.37", "")
			csr := ask(t, "e37", bed.RequestSpec{DNS: []string{"e37"}, IPs: append(addrs(fip.Address), m.Address)})
			refused(t, csr, m.Machine.Machine, reason.AddressNotOwned, fip.Address)
			theStage.Cloud.MoveFloatingIP(fip.ID, m.Port.ID)
			approved(t, csr)
		},
		"E41 A26 A27 addresses that only look like the server's": func(t *testing.T) {
			m := machine(t, "e41")
			theStage.Cloud.UpdatePort(m.Port.ID, func(p *simulator.Port) { p.AllowedAddressPairs = []string{"10.66.0.1"} })
			theStage.Cloud.UpdateServer(m.Server.ID, func(s *simulator.Server) { s.AccessIPv4 = "10.66.0.2" })
			csr := ask(t, "e41", bed.RequestSpec{DNS: []string{"e41"}, IPs: addrs("10.66.0.1", "10.66.0.2")})
			refused(t, csr, m.Machine.Machine, reason.AddressNotOwned, "10.66.0.1", "10.66.0.2")
		},
		"A08 the API server's service address, although Neutron lists it": func(t *testing.T) {
			m := machine(t, "a08")
			cluster.Project.AddPort(m.Server.ID, "10.96.0.1")
			refused(t, ask(t, "a08", bed.RequestSpec{IPs: addrs("10.96.0.1")}), m.Machine.Machine, reason.AddressReserved, "10.96.0.1")
		},
		"A30 a port that is not ACTIVE and not the provider's, until it is": func(t *testing.T) {
			m := machine(t, "a30")
			port := cluster.Project.AddPort(m.Server.ID, "10.67.0.9", func(p *simulator.Port) { p.Status = "DOWN" })
			csr := ask(t, "a30", bed.RequestSpec{IPs: addrs("10.67.0.9")})
			if err := approver.WaitLog(t.Context(), cluster.Name, "a30", string(reason.PortNotActive), soon); err != nil {
				t.Fatal(err)
			}
			theStage.Cloud.UpdatePort(port.ID, func(p *simulator.Port) { p.Status = "ACTIVE" })
			// A change of the Machine has its node's request judged again at once.
			changed := m.Machine.Machine.DeepCopy()
			changed.Annotations = map[string]string{"changed": "yes"}
			if err := theStage.Management.Client.Patch(t.Context(), changed, client.MergeFrom(m.Machine.Machine)); err != nil {
				t.Fatal(err)
			}
			if err := cluster.WaitApproved(t.Context(), csr.Name, 10*time.Second); err != nil {
				t.Error(err)
			}
		},
		"E43 A25 the server is renamed": func(t *testing.T) {
			m := machine(t, "e43")
			theStage.Cloud.UpdateServer(m.Server.ID, func(s *simulator.Server) { s.Name, s.Hostname = "other", "other" })
			approved(t, ask(t, "e43", bed.RequestSpec{DNS: []string{"e43"}, IPs: []netip.Addr{m.Address}}))
			refused(t, ask(t, "e43", bed.RequestSpec{DNS: []string{"other"}}), m.Machine.Machine, reason.NameNotOwned, "other")
		},
		"E45 a name with dots": func(t *testing.T) {
			machine(t, "e45.web.1")
			approved(t, ask(t, "e45-web-1", bed.RequestSpec{DNS: []string{"e45-web-1"}}))
			approved(t, ask(t, "e45.web.1", bed.RequestSpec{DNS: []string{"e45.web.1"}}))
		},
		"E45 A03 a node that took another name is told on the Machine it is linked to": func(t *testing.T) {
			m := machine(t, "a03", func(s *bed.MachineSpec) { s.NodeName = "a03-other" })
			refused(t, ask(t, "a03-other", bed.RequestSpec{DNS: []string{"a03-other"}}), m.Machine.Machine, reason.NameMismatch, "a03")
		},
		"E57 no Machine: told on the Cluster": func(t *testing.T) {
			refused(t, ask(t, "e57-nobody", bed.RequestSpec{DNS: []string{"e57-nobody"}}), cluster.Object, reason.NoMachine, "e57-nobody")
		},
		"E57 the Machine appears later": func(t *testing.T) {
			csr := ask(t, "e57-late", bed.RequestSpec{DNS: []string{"e57-late"}})
			machine(t, "e57-late")
			approved(t, csr)
		},
		"E68 the server is deleted": func(t *testing.T) {
			m := machine(t, "e68")
			theStage.Cloud.DeleteServer(m.Server.ID)
			refused(t, ask(t, "e68", bed.RequestSpec{DNS: []string{"e68"}}), m.Machine.Machine, reason.ServerNotFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// E54: ten requests of one node; the newest is approved, the older ones are left.
func TestNewestOnly(t *testing.T) {
	together(t)
	m := machine(t, "e54", func(s *bed.MachineSpec) { s.ProviderID, s.InstanceID = "", "" })
	var all []*certificatesv1.CertificateSigningRequest
	for range 10 {
		all = append(all, ask(t, "e54", bed.RequestSpec{DNS: []string{"e54"}, IPs: []netip.Addr{m.Address}}))
	}
	// Only now does the provider write down which server it is.
	providerID := "openstack:///" + m.Server.ID
	infra := m.Infrastructure
	infra.Object["spec"].(map[string]any)["providerID"] = providerID
	if err := theStage.Management.Client.Update(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
	before := m.Machine.Machine.DeepCopy()
	m.Machine.Machine.Spec.ProviderID = providerID
	if err := theStage.Management.Client.Patch(t.Context(), m.Machine.Machine, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	approved(t, all[9])
	requests, err := cluster.Workload.Requests(t.Context(), "e54")
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		if stage.IsApproved(&requests[i]) != (requests[i].Name == all[9].Name) {
			t.Errorf("request %d of %d: %v", i, len(requests), requests[i].Status.Conditions)
		}
	}
}
