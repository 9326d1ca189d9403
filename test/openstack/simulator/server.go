package simulator

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Server is an instance in Nova. Its addresses come from ports and floating IPs.
type Server struct {
	ID        string
	Name      string
	ProjectID string
	Region    string
	// Hostname is shown from microversion 2.90 on; by default what Nova makes of the name.
	Hostname string
	// Status is Nova's: ACTIVE, BUILD, SHUTOFF, ERROR, DELETED, SOFT_DELETED and so on. ACTIVE by default.
	Status   string
	Created  time.Time
	Metadata map[string]string
	// AccessIPv4 and AccessIPv6 are free text that any project member can set.
	AccessIPv4, AccessIPv6 string
	// CellDown answers as if the server's cell cannot be reached: UNKNOWN from microversion 2.69 on, else a 500.
	CellDown bool

	updated time.Time
	cached  map[string][]address // what Nova goes on to show, see FreezeAddresses
}

// AddServer makes an active server in the first region.
func (p *Project) AddServer(name string, changes ...func(*Server)) Server {
	server := Server{
		ID: newUUID(), Name: name, ProjectID: p.ID, Region: p.sim.config.Regions[0], Status: "ACTIVE",
		Created: now(), Metadata: map[string]string{},
	}
	server.Hostname = sanitizeHostname(name, server.ID)
	apply(&server, changes)
	p.sim.mu.Lock()
	defer p.sim.mu.Unlock()
	p.sim.putServer(server)
	return server.clone()
}

// Server returns a server's state.
func (s *Simulator) Server(id string) Server {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return mustGet(s.servers.rows, "server", id).clone()
}

// UpdateServer changes a server.
func (s *Simulator) UpdateServer(id string, change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := mustGet(s.servers.rows, "server", id).clone()
	change(&server)
	server.ID = id
	s.putServer(server)
}

// DeleteServer removes a server with its ports, as Nova does: it is not found any more.
func (s *Simulator) DeleteServer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mustGet(s.servers.rows, "server", id)
	for port := range s.ports.find("device_id", id) {
		s.deletePort(port)
	}
	s.servers.drop(id)
}

// FreezeAddresses keeps Nova's cache of a server's addresses as it is now, while Neutron changes.
func (s *Simulator) FreezeAddresses(serverID string) {
	s.UpdateServer(serverID, func(server *Server) { server.cached = s.addresses(*server) })
}

// RefreshAddresses brings Nova's cache up to date, and keeps it so.
func (s *Simulator) RefreshAddresses(serverID string) {
	s.UpdateServer(serverID, func(server *Server) { server.cached = nil })
}

func (s *Simulator) putServer(server Server) {
	s.region(server.Region)
	server.updated = now()
	s.servers.put(server.ID, server.clone())
}

func (s Server) clone() Server {
	s.Metadata = maps.Clone(s.Metadata)
	return s
}

var notHostname = regexp.MustCompile(`[^\pL\pN-]`)

// sanitizeHostname is Nova's rule since Wallaby.
func sanitizeHostname(name, id string) string {
	latin1 := slices.DeleteFunc([]rune(name), func(r rune) bool { return r > 0xff })
	name = string(latin1[:min(63, len(latin1))])
	name = strings.NewReplacer(" ", "-", "_", "-", ".", "-").Replace(name)
	name = notHostname.ReplaceAllString(name, "")
	if name = strings.Trim(strings.ToLower(name), "-"); name == "" {
		return "Server-" + id
	}
	return name
}
