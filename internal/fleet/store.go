package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
)

// Bounds of how many requests are remembered of one cluster, and of one node of it, which must not
// crowd out the others (A09, A16). Issued requests are deleted after an hour and pending ones after a
// day, in which an honest node makes a hundred when nobody approves them. Past the bounds a node's
// newest request takes the place of the one that was the newest; others are not remembered.
const (
	maxKept    = 20_000
	maxPerNode = 100
)

// Pending is all that is kept of a request. The one to judge is read anew when it is judged.
type Pending struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Created         time.Time

	node    string
	decided bool
	// order breaks ties between requests of one second: the resourceVersion at which the request was
	// first seen. Approval and issue make the present one grow, and would make an older request look
	// newer than the one that the kubelet waits for. 0 for a request that was decided when it was
	// first seen: how old it really is cannot be known then, so it hides none that is pending.
	order uint64
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
	p := Pending{
		Name: csr.Name, UID: csr.UID, ResourceVersion: csr.ResourceVersion, Created: csr.CreationTimestamp.Time,
		node: node, decided: request.Decided(csr),
	}
	if !p.decided {
		p.order, _ = strconv.ParseUint(p.ResourceVersion, 10, 64)
	}
	return p, true
}

// set remembers a request, new or changed.
func (s *store) set(p Pending) {
	s.mu.Lock()
	before := s.answersLocked(s.requests[p.Name].node, p.node)
	s.setLocked(p)
	s.unlock(before)
}

func (s *store) setLocked(p Pending) {
	if s.requests[p.Name].node != p.node {
		s.removeLocked(p.Name)
	}
	newest, seen := s.newest[p.node]
	before, known := s.requests[p.Name]
	switch p.UID {
	case before.UID:
		p.order = before.order
	case newest.UID:
		p.order = newest.order
	}
	if !known {
		if len(s.requests) >= maxKept || s.count[p.node] >= maxPerNode {
			if !s.keptLocked(newest) || !newer(p, newest) {
				return
			}
			delete(s.requests, newest.Name)
			s.count[p.node]--
		}
		s.count[p.node]++
	}
	s.requests[p.Name] = p
	if !seen || newest.UID == p.UID || newer(p, newest) {
		s.newest[p.node] = p
	}
}

// remove forgets a request that was deleted.
func (s *store) remove(name string) {
	s.mu.Lock()
	before := s.answersLocked(s.requests[name].node)
	s.removeLocked(name)
	s.unlock(before)
}

func (s *store) removeLocked(name string) {
	p, known := s.requests[name]
	if !known {
		return
	}
	delete(s.requests, name)
	if s.count[p.node]--; s.count[p.node] == 0 {
		delete(s.count, p.node)
		delete(s.newest, p.node)
	}
}

// replace takes all that another store keeps.
func (s *store) replace(listed *store) {
	s.mu.Lock()
	nodes := slices.AppendSeq(slices.Collect(maps.Keys(s.newest)), maps.Keys(listed.newest))
	before := s.answersLocked(nodes...)
	for name, p := range s.requests {
		if listed.requests[name].node != p.node {
			s.removeLocked(name)
		}
	}
	for _, p := range listed.requests {
		s.setLocked(p)
	}
	s.unlock(before)
}

// pending returns the node's newest request, and false when it is decided or gone.
func (s *store) pending(node string) (Pending, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pendingLocked(node)
}

func (s *store) pendingLocked(node string) (Pending, bool) {
	p := s.newest[node]
	if p.decided || !s.keptLocked(p) {
		return Pending{}, false
	}
	return p, true
}

// answersLocked is which request of each node is pending before a change.
func (s *store) answersLocked(nodes ...string) map[string]types.UID {
	answers := make(map[string]types.UID, len(nodes))
	for _, node := range nodes {
		p, _ := s.pendingLocked(node)
		answers[node] = p.UID
	}
	return answers
}

// unlock ends a change, and reports the nodes that have another pending request now, or none any more.
func (s *store) unlock(before map[string]types.UID) {
	for node, uid := range before {
		if p, _ := s.pendingLocked(node); p.UID == uid {
			delete(before, node)
		}
	}
	s.mu.Unlock()
	for node := range before {
		s.changed(node)
	}
}

// keptLocked tells whether a node's newest request is still there.
func (s *store) keptLocked(p Pending) bool {
	current, there := s.requests[p.Name]
	return there && current.UID == p.UID && current.node == p.node
}

// newer orders requests: the later creation; ties by the greater resourceVersion when first seen,
// and by UID where a server gives none, so that the answer does not depend on the order of a list.
func newer(a, b Pending) bool {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.order, b.order), cmp.Compare(a.UID, b.UID)) > 0
}
