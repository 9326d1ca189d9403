package simulator

import (
	"net/http"
	"slices"
	"sync"
)

// Effect replaces or bends an answer. Next is the true one. A function of one's own does as well.
type Effect func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Fault says which requests get an effect. Empty fields match anything.
type Fault struct {
	Service   Service
	Operation Operation
	Region    string
	// Credential is an ID; requests for a token have none yet.
	Credential string
	// Match is for what the other fields cannot tell.
	Match func(*http.Request) bool
	// Times is how many requests get the effect; 0 is all until the fault is removed.
	Times  int
	Effect Effect
}

type faults struct {
	mu     sync.Mutex
	active []*Fault
}

// Inject adds a fault and returns what removes it. Of several that match, the oldest counts.
func (s *Simulator) Inject(fault Fault) (remove func()) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	added := &fault
	s.faults.active = append(s.faults.active, added)
	return func() { s.faults.remove(func(f *Fault) bool { return f == added }) }
}

// ClearFaults removes all faults.
func (s *Simulator) ClearFaults() { s.faults.remove(func(*Fault) bool { return true }) }

func (f *faults) remove(which func(*Fault) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = slices.DeleteFunc(f.active, which)
}

// take finds the effect for a request, and counts it.
func (f *faults) take(entry Request, r *http.Request) Effect {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.active {
		if !fault.matches(entry, r) {
			continue
		}
		if fault.Times > 0 {
			if fault.Times--; fault.Times == 0 {
				f.active = slices.Delete(f.active, i, i+1)
			}
		}
		return fault.Effect
	}
	return nil
}

func (f *Fault) matches(entry Request, r *http.Request) bool {
	return (f.Service == "" || f.Service == entry.Service) &&
		(f.Operation == "" || f.Operation == entry.Operation) &&
		(f.Region == "" || f.Region == entry.Region) &&
		(f.Credential == "" || f.Credential == entry.Credential) &&
		(f.Match == nil || f.Match(r))
}
