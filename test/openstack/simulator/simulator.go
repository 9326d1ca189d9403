package simulator

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Config says what cloud to run. The zero value is one region, with TLS, on a free loopback port.
type Config struct {
	// Listen is the address to listen on; 127.0.0.1:0 by default.
	Listen string
	// Host is the name or address in the URLs that the services give out; by default that of Listen.
	Host string
	// PlainHTTP serves without TLS.
	PlainHTTP bool
	// Regions has the regions' names; RegionOne by default. Each has servers and networks of its own.
	Regions []string
	// TokenLifetime is how long a token is good; one hour by default.
	TokenLifetime time.Duration
	// DNSDomain turns on Neutron's dns extension, which shows dns_name and dns_assignment on ports.
	DNSDomain string
	// MaxPage cuts Neutron's lists into pages even if the client sets no limit; 0 does not.
	MaxPage int
}

// Simulator is a running cloud.
type Simulator struct {
	config Config
	url    string
	ca     []byte
	server *http.Server

	mu          sync.RWMutex // guards the rest, up to the empty line
	projects    map[string]*Project
	credentials map[string]*Credential
	sessions    map[string]*session
	networks    map[string]Network
	servers     *table[Server]
	ports       *table[Port]
	floatingIPs *table[FloatingIP]

	requests requestLog
	faults   faults
}

// New starts a cloud without projects.
func New(config Config) (*Simulator, error) {
	config.Listen = cmp.Or(config.Listen, "127.0.0.1:0")
	config.TokenLifetime = cmp.Or(config.TokenLifetime, time.Hour)
	if len(config.Regions) == 0 {
		config.Regions = []string{"RegionOne"}
	}
	listener, err := net.Listen("tcp", config.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening for OpenStack clients: %w", err)
	}
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	host = cmp.Or(config.Host, host)
	s := &Simulator{
		config:      config,
		url:         "https://" + net.JoinHostPort(host, port),
		projects:    map[string]*Project{},
		credentials: map[string]*Credential{},
		sessions:    map[string]*session{},
		networks:    map[string]Network{},
		servers:     newTable[Server](nil),
		ports: newTable(map[string]func(Port) string{
			"device_id": func(p Port) string { return p.DeviceID },
		}),
		floatingIPs: newTable(map[string]func(FloatingIP) string{
			"port_id":             func(f FloatingIP) string { return f.PortID },
			"floating_ip_address": func(f FloatingIP) string { return f.Address },
		}),
	}
	if config.PlainHTTP {
		s.url = "http://" + net.JoinHostPort(host, port)
	} else {
		var certificate tls.Certificate
		if s.ca, certificate, err = newCertificates(host); err != nil {
			listener.Close()
			return nil, err
		}
		// HTTP/1.1 only, as OpenStack's own servers: a connection reset then ends one request.
		listener = tls.NewListener(listener, &tls.Config{
			Certificates: []tls.Certificate{certificate},
			NextProtos:   []string{"http/1.1"},
		})
	}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: silent(), ReadHeaderTimeout: time.Minute}
	go s.server.Serve(listener)
	return s, nil
}

// Close ends the cloud and every request that still hangs in it.
func (s *Simulator) Close() { s.server.Close() }

// URL is where the services' paths start, without a slash at the end.
func (s *Simulator) URL() string { return s.url }

// AuthURL is Keystone's versioned URL. URL()+"/identity" works as well, for clients that look for versions.
func (s *Simulator) AuthURL() string { return s.url + "/identity/v3" }

// CAPEM is the certificate authority that vouches for the serving certificate; nil without TLS.
func (s *Simulator) CAPEM() []byte { return s.ca }

// region gives the number of a region in URLs; an empty name is the first one. A name that is not
// configured is the test's mistake.
func (s *Simulator) region(name string) int {
	for i, r := range s.config.Regions {
		if r == name || name == "" {
			return i + 1
		}
	}
	panic(fmt.Sprintf("simulator: no region %s, only %v", strconv.Quote(name), s.config.Regions))
}
