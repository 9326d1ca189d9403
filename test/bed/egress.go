package bed

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// egress stands in for the network between an API server and its played nodes. The API server
// dials a node by its address through this proxy (its egress selector, HTTP CONNECT over a Unix
// socket), which leads to the loopback port of the played kubelet. So the API server verifies the
// kubelet's certificate for the node's own address.
type egress struct {
	config   string // file for --egress-selector-config-file
	listener net.Listener

	mu     sync.Mutex
	routes map[string]string // a node's address and kubelet port to the loopback address
}

const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %s
`

// newEgress starts a proxy whose files are in the given folder.
func (b *Bed) newEgress(dir string) (*egress, error) {
	// A Unix socket's path has 107 bytes at most, so it does not contain the cluster's name.
	sockets, err := os.MkdirTemp(b.tmp, "e")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(sockets, "s")
	e := &egress{config: filepath.Join(dir, "egress.yaml"), routes: map[string]string{}}
	if err := os.WriteFile(e.config, fmt.Appendf(nil, egressConfig, socket), 0o600); err != nil {
		return nil, err
	}
	if e.listener, err = net.Listen("unix", socket); err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := e.listener.Accept()
			if err != nil {
				return // closed
			}
			go e.connect(conn)
		}
	}()
	return e, nil
}

func (e *egress) close() {
	if e != nil {
		_ = e.listener.Close()
	}
}

// route leads connections to a node's address to a loopback address, or nowhere when that is empty.
func (e *egress) route(address, loopback string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes[address] = loopback
}

// connect answers one CONNECT request and then copies both ways until one side ends.
func (e *egress) connect(conn net.Conn) {
	defer conn.Close()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	e.mu.Lock()
	loopback := e.routes[request.RequestURI]
	e.mu.Unlock()
	if loopback == "" {
		fmt.Fprintf(conn, "HTTP/1.1 504 no route to %s\r\n\r\n", request.RequestURI)
		return
	}
	kubelet, err := net.Dial("tcp", loopback)
	if err != nil {
		fmt.Fprintf(conn, "HTTP/1.1 502 connection refused\r\n\r\n")
		return
	}
	defer kubelet.Close()
	// The API server sends nothing before this answer, so the reader above holds nothing back.
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n\r\n")
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{conn, kubelet}, {kubelet, conn}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}
