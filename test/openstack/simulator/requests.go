package simulator

import (
	"bufio"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Service is a part of OpenStack, by its type in the catalog: identity, compute or network.
type Service string

// The services that are here.
const (
	Keystone Service = "identity"
	Nova     Service = "compute"
	Neutron  Service = "network"
)

// Operation is what a request asks for.
type Operation string

// The operations that are told apart.
const (
	OpDiscovery   Operation = "discovery"   // the version documents of all services
	OpToken       Operation = "token"       // POST /v3/auth/tokens
	OpServer      Operation = "server"      // GET /v2.1/servers/{id}
	OpPorts       Operation = "ports"       // GET /v2.0/ports
	OpFloatingIPs Operation = "floatingips" // GET /v2.0/floatingips
	OpOther       Operation = "other"       // everything else
)

// Request is an entry of the request log.
type Request struct {
	Time time.Time
	// Duration is the time until the status was sent.
	Duration  time.Duration
	Service   Service
	Operation Operation
	Region    string
	// Interface of the endpoint: public, internal or admin.
	Interface string
	Method    string
	Path      string
	Query     url.Values
	// Status is 0 when the answer ended without one.
	Status    int
	UserAgent string
	// Microversion is the header as it came, or empty.
	Microversion string
	// Credential is the ID of the one that the token in the request, or in the answer, is of.
	Credential string
}

// keptRequests bounds the memory of long benchmarks; counts go on.
const keptRequests = 100_000

type requestLog struct {
	mu      sync.Mutex
	entries []Request
	counts  map[Service]map[Operation]int
}

// Requests returns the log, oldest answer first. At least the newest 100,000 are kept.
func (s *Simulator) Requests() []Request {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	return slices.Clone(s.requests.entries)
}

// ResetRequests empties the log and sets the counts to zero.
func (s *Simulator) ResetRequests() {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	s.requests.entries, s.requests.counts = nil, nil
}

// Count tells how many requests were answered; an empty service or operation is any.
func (s *Simulator) Count(service Service, operation Operation) int {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	n := 0
	for of, operations := range s.requests.counts {
		for o, count := range operations {
			if (service == "" || service == of) && (operation == "" || operation == o) {
				n += count
			}
		}
	}
	return n
}

func (l *requestLog) add(entry Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= 2*keptRequests {
		l.entries = slices.Clone(l.entries[keptRequests:])
	}
	l.entries = append(l.entries, entry)
	if l.counts == nil {
		l.counts = map[Service]map[Operation]int{}
	}
	if l.counts[entry.Service] == nil {
		l.counts[entry.Service] = map[Operation]int{}
	}
	l.counts[entry.Service][entry.Operation]++
}

// recorder logs a request before the client can see the answer, so that a test that has the
// answer also has the entry.
type recorder struct {
	http.ResponseWriter
	log    *requestLog
	entry  Request
	logged bool
}

func (r *recorder) WriteHeader(status int) {
	r.entry.Status = status
	r.finish()
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if !r.logged {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(b)
}

// Hijack is for Reset.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.finish()
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) finish() {
	if !r.logged {
		r.logged = true
		r.entry.Duration = time.Since(r.entry.Time)
		r.log.add(r.entry)
	}
}
