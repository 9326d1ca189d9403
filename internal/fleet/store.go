package fleet

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
)

// maxKept bounds how many requests are remembered of one cluster (A09, A16). An honest cluster has
// a few for each node: issued ones are deleted after an hour, pending ones after a day.
const maxKept = 20_000

// Pending is all that is kept of a request. The one to judge is read anew when it is judged.
type Pending struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Created         time.Time

	node    string
	decided bool
}

// store is what a watch has seen of one cluster's kubelet-serving requests.
type store struct {
	changed func(node string)

	mu       sync.Mutex
	requests map[string]Pending
	// newest is the newest request ever seen of a node, decided ones included: once it is decided,
	// an older one that is still pending is not worth an approval, its key is gone (E54). A node
	// is forgotten with its last request.
	newest map[string]Pending
	count  map[string]int
}

func newStore(changed func(node string)) *store {
	return &store{
		changed:  changed,
		requests: map[string]Pending{},
		newest:   map[string]Pending{},
		count:    map[string]int{},
	}
}

// maxText bounds what is kept of a request's name, UID and resourceVersion together. Real ones have
// at most 253, 36 and 20 bytes.
const maxText = 512

// strip keeps what the store needs of a request, and false for what is no node's request to this
// signer: a cluster may send whatever it likes.
func strip(csr *certificatesv1.CertificateSigningRequest) (Pending, bool) {
	node, err := request.Node(csr)
	if err != nil || csr.Name == "" || csr.UID == "" ||
		len(csr.Name)+len(csr.UID)+len(csr.ResourceVersion) > maxText {
		return Pending{}, false
	}
	return Pending{
		Name: csr.Name, UID: csr.UID, ResourceVersion: csr.ResourceVersion, Created: csr.CreationTimestamp.Time,
		node: node, decided: request.Decided(csr),
	}, true
}

// set remembers a request, new or changed.
func (s *store) set(p Pending) {
	s.mu.Lock()
	var before string
	var lost bool
	if s.requests[p.Name].node != p.node {
		before, lost = s.removeLocked(p.Name)
	}
	notify := s.setLocked(p)
	s.mu.Unlock()
	if lost {
		s.changed(before)
	}
	if notify {
		s.changed(p.node)
	}
}

// setLocked tells whether the node's newest request is another one now, or is decided now. The name
// is not another node's.
func (s *store) setLocked(p Pending) bool {
	if _, known := s.requests[p.Name]; !known {
		if len(s.requests) >= maxKept {
			return false
		}
		s.count[p.node]++
	}
	s.requests[p.Name] = p
	before, seen := s.newest[p.node]
	switch {
	case seen && before.UID == p.UID:
		s.newest[p.node] = p
		return before.decided != p.decided
	case !seen || newer(p, before):
		s.newest[p.node] = p
		return true
	}
	return false
}

// remove forgets a request that was deleted.
func (s *store) remove(name string) {
	s.mu.Lock()
	node, notify := s.removeLocked(name)
	s.mu.Unlock()
	if notify {
		s.changed(node)
	}
}

func (s *store) removeLocked(name string) (node string, wasNewest bool) {
	p, known := s.requests[name]
	if !known {
		return "", false
	}
	delete(s.requests, name)
	if s.count[p.node]--; s.count[p.node] == 0 {
		delete(s.count, p.node)
		delete(s.newest, p.node)
		return p.node, true
	}
	return p.node, s.newest[p.node].UID == p.UID
}

// replace takes all that another store keeps. Nodes whose newest request is another
// one than before are reported.
func (s *store) replace(listed *store) {
	s.mu.Lock()
	changed := map[string]bool{}
	for name, p := range s.requests {
		if listed.requests[name].node != p.node {
			if node, wasNewest := s.removeLocked(name); wasNewest {
				changed[node] = true
			}
		}
	}
	for _, p := range listed.requests {
		if s.setLocked(p) {
			changed[p.node] = true
		}
	}
	s.mu.Unlock()
	for node := range changed {
		s.changed(node)
	}
}

// pending returns the node's newest request, and false when it is decided or gone.
func (s *store) pending(node string) (Pending, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, seen := s.newest[node]
	if !seen || p.decided {
		return Pending{}, false
	}
	current, there := s.requests[p.Name]
	return p, there && current.UID == p.UID
}

// newer orders requests: the later creation; ties by the numerically greater resourceVersion.
func newer(a, b Pending) bool {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c > 0
	}
	return cmp.Compare(version(a), version(b)) > 0
}

func version(p Pending) uint64 {
	v, _ := strconv.ParseUint(p.ResourceVersion, 10, 64)
	return v
}
