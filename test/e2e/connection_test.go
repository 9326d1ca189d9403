package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/bed"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/test/stage"
)

// balancer forwards TCP connections and, as load balancers do, forgets some without a word: they
// stay open and lead nowhere.
type balancer struct {
	listener net.Listener
	target   string
	// idle is how long a connection may be silent in both directions.
	idle time.Duration

	mu    sync.Mutex
	links []*link
}

// link is one connection through the balancer.
type link struct {
	mu        sync.Mutex
	ends      [2]net.Conn
	last      time.Time
	forgotten bool
}

func newBalancer(t *testing.T, target string, idle time.Duration) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener, target: strings.TrimPrefix(target, "https://"), idle: idle}
	go b.serve()
	t.Cleanup(func() {
		_ = listener.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, l := range b.links {
			_, _ = l.ends[0].Close(), l.ends[1].Close()
		}
	})
	return b
}

func (b *balancer) serve() {
	for {
		front, err := b.listener.Accept()
		if err != nil {
			return
		}
		back, err := net.Dial("tcp", b.target)
		if err != nil {
			_ = front.Close()
			continue
		}
		l := &link{ends: [2]net.Conn{front, back}, last: time.Now()}
		b.mu.Lock()
		b.links = append(b.links, l)
		b.mu.Unlock()
		go l.forward(front, back, b.idle)
		go l.forward(back, front, b.idle)
	}
}

func (l *link) forward(from, to net.Conn, idle time.Duration) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if l.lost(idle) {
			// What arrives is taken and thrown away, an end as well.
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// lost tells whether the connection is forgotten, now that something arrives on it.
func (l *link) lost(idle time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgotten = l.forgotten || time.Since(l.last) > idle
	l.last = time.Now()
	return l.forgotten
}

// forget loses all connections there are.
func (b *balancer) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.links {
		l.mu.Lock()
		l.forgotten = true
		l.mu.Unlock()
	}
}

// opened is how many connections were made.
func (b *balancer) opened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.links)
}

// behind is a kubeconfig of the played cluster by way of the balancer.
func (b *balancer) behind() []byte {
	return bytes.ReplaceAll(played.Workload.Kubeconfig, []byte(played.Workload.Config.Host), []byte("https://"+b.listener.Addr().String()))
}

// introduce tells of a Cluster that leads to the played workload cluster and waits until it is served.
func introduce(t *testing.T, name string, kubeconfig []byte) *stage.Cluster {
	t.Helper()
	c, err := theStage.Introduce(t.Context(), name, played.Workload, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, c, name+"-first", soon)
	return c
}

// serve has a request of a new node approved.
func serve(t *testing.T, c *stage.Cluster, node string, limit time.Duration) {
	t.Helper()
	m := machineIn(t, c, node)
	csr := askIn(t, c, node, bed.RequestSpec{DNS: []string{node}, IPs: []netip.Addr{m.Address}})
	begin := time.Now()
	if err := c.WaitApproved(t.Context(), csr.Name, limit); err != nil {
		t.Error(err)
	}
	t.Logf("%s: approved after %s", node, time.Since(begin).Round(time.Millisecond))
}

// A load balancer that forgets idle connections must not make the approver deaf: HTTP/2 pings keep the
// watch from being idle, or show that it is dead.
func TestIdleConnection(t *testing.T) {
	together(t)
	c := introduce(t, "idle", newBalancer(t, played.Workload.Config.Host, 50*time.Second).behind())
	time.Sleep(time.Minute)
	serve(t, c, "idle-later", 5*time.Second)
}

func TestForgottenConnection(t *testing.T) {
	together(t)
	b := newBalancer(t, played.Workload.Config.Host, time.Hour)
	c := introduce(t, "forgotten", b.behind())
	before := b.opened()
	b.forget()
	// 30 s until a ping, 15 s without an answer.
	serve(t, c, "forgotten-later", time.Minute)
	if b.opened() == before {
		t.Error("no other connection was made, so the first one was not lost")
	}
}

// E72: Cluster API renews the client certificate; the new Secret is used once the old credential is
// rejected, without a request being lost.
func TestKubeconfigReplaced(t *testing.T) {
	together(t)
	c := introduce(t, "replaced", tokenKubeconfig(t, "replaced"))
	renewed, err := played.Workload.KubeconfigAs("kubernetes-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	b := newBalancer(t, played.Workload.Config.Host, time.Hour)
	renewed = bytes.ReplaceAll(renewed, []byte(played.Workload.Config.Host), []byte("https://"+b.listener.Addr().String()))
	if err := theStage.Management.SetKubeconfig(t.Context(), c.Object, renewed); err != nil {
		t.Fatal(err)
	}
	// The old one is still good, and nothing is read for every request.
	serve(t, c, "replaced-before", soon)
	if n := b.opened(); n > 0 {
		t.Errorf("%d connections with the new kubeconfig", n)
	}
	if err := played.Workload.Clientset.CoreV1().ServiceAccounts("default").Delete(t.Context(), "replaced", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(11 * time.Second) // the API server remembers a good token for ten
	serve(t, c, "replaced-after", soon)
	if b.opened() == 0 {
		t.Error("the new kubeconfig is not used")
	}
}

// tokenKubeconfig is a kubeconfig of the played cluster with the token of a ServiceAccount that may
// do everything.
func tokenKubeconfig(t *testing.T, name string) []byte {
	t.Helper()
	ctx, core := t.Context(), played.Workload.Clientset.CoreV1()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := core.ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e:" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}
	if _, err := played.Workload.Clientset.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := core.ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: played.Workload.Config.Host, CertificateAuthorityData: played.Workload.Config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// E55: 500 bad requests of one node keep neither the other nodes nor the other clusters waiting.
func TestFlood(t *testing.T) {
	together(t)
	m := machine(t, "e55-bad")
	config, err := cluster.Workload.As("system:node:e55-bad", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	numbers := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range numbers {
				spec := bed.RequestSpec{CommonName: "system:node:e55-bad", DNS: []string{fmt.Sprintf("e55-%d", i)}}
				if _, _, err := bed.MakeRequest(context.WithoutCancel(t.Context()), config, spec); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		defer close(numbers)
		for i := range 500 {
			numbers <- i
		}
	}()
	serve(t, cluster, "e55-good", soon)
	serve(t, played, "e55-other", soon)
	group.Wait()
	if _, err := theStage.WaitEvent(t.Context(), m.Machine.Machine, string(reason.NameNotOwned), soon); err != nil {
		t.Error(err)
	}
	events, err := theStage.Events(t.Context(), m.Machine.Machine)
	if err != nil || len(events) > 60 {
		t.Errorf("%d Events about the node, %v", len(events), err)
	}
}
