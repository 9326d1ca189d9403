package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
)

// change is one step of what an API server says.
type change struct {
	name, uid, node string
	second, version int
	decided         bool
	deleted         bool
}

func (c change) pending() Pending {
	p := Pending{
		Name: c.name, UID: types.UID(c.uid), ResourceVersion: strconv.Itoa(c.version),
		Created: epoch.Add(time.Duration(c.second) * time.Second), node: c.node, decided: c.decided,
	}
	if c.version > 0 && !c.decided {
		p.order = uint64(c.version)
	}
	return p
}

func TestNewest(t *testing.T) {
	cases := []struct {
		name    string
		changes []change
		// want is the pending request of each node, reported the nodes that were reported, sorted.
		want     map[string]string
		reported []string
	}{
		{"one", []change{{name: "a", uid: "1", node: "n1"}}, map[string]string{"n1": "1"}, []string{"n1"}},
		{"E54 the later creation wins", []change{
			{name: "a", uid: "1", node: "n1", second: 2, version: 1}, {name: "b", uid: "2", node: "n1", second: 1, version: 2},
		}, map[string]string{"n1": "1"}, []string{"n1"}},
		{"E54 a newer one takes its place", []change{
			{name: "a", uid: "1", node: "n1", second: 1}, {name: "b", uid: "2", node: "n1", second: 2},
		}, map[string]string{"n1": "2"}, []string{"n1", "n1"}},
		{"E54 ties by the greater number, not the greater text", []change{
			{name: "a", uid: "1", node: "n1", version: 9}, {name: "b", uid: "2", node: "n1", version: 10},
		}, map[string]string{"n1": "2"}, []string{"n1", "n1"}},
		{"E54 an approval does not make an older one of the same second the newest", []change{
			{name: "a", uid: "1", node: "n1", version: 9}, {name: "b", uid: "2", node: "n1", version: 10},
			{name: "a", uid: "1", node: "n1", version: 11, decided: true},
		}, map[string]string{"n1": "2"}, []string{"n1", "n1"}},
		{"E54 nor one that was approved before it was seen", []change{
			{name: "a", uid: "1", node: "n1", version: 11, decided: true}, {name: "b", uid: "2", node: "n1", version: 10},
		}, map[string]string{"n1": "2"}, []string{"n1"}},
		{"E54 ties in the other order", []change{
			{name: "b", uid: "2", node: "n1", version: 10}, {name: "a", uid: "1", node: "n1", version: 9},
		}, map[string]string{"n1": "2"}, []string{"n1"}},
		{"E54 the newest is decided: the older one is hidden", []change{
			{name: "a", uid: "1", node: "n1", second: 1}, {name: "b", uid: "2", node: "n1", second: 2},
			{name: "b", uid: "2", node: "n1", second: 2, decided: true},
		}, map[string]string{"n1": ""}, []string{"n1", "n1", "n1"}},
		{"E54 an older one that comes late is hidden", []change{
			{name: "b", uid: "2", node: "n1", second: 2, decided: true}, {name: "a", uid: "1", node: "n1", second: 1},
		}, map[string]string{"n1": ""}, nil},
		{"E54 the decided newest is deleted: the older one stays hidden", []change{
			{name: "a", uid: "1", node: "n1", second: 1}, {name: "b", uid: "2", node: "n1", second: 2, decided: true},
			{name: "b", deleted: true},
		}, map[string]string{"n1": ""}, []string{"n1", "n1"}},
		{"E61 the newest was decided by another", []change{
			{name: "a", uid: "1", node: "n1"}, {name: "a", uid: "1", node: "n1", decided: true},
		}, map[string]string{"n1": ""}, []string{"n1", "n1"}},
		{"a change that decides nothing is not reported", []change{
			{name: "a", uid: "1", node: "n1", version: 1}, {name: "a", uid: "1", node: "n1", version: 2},
		}, map[string]string{"n1": "1"}, []string{"n1"}},
		{"a deleted one is no longer pending", []change{
			{name: "a", uid: "1", node: "n1"}, {name: "a", deleted: true},
		}, map[string]string{"n1": ""}, []string{"n1", "n1"}},
		{"deleting an older one is not reported", []change{
			{name: "a", uid: "1", node: "n1", second: 1}, {name: "b", uid: "2", node: "n1", second: 2}, {name: "a", deleted: true},
		}, map[string]string{"n1": "2"}, []string{"n1", "n1"}},
		{"deleting an unknown one is nothing", []change{{name: "a", deleted: true}}, nil, nil},
		{"a node is forgotten with its last request", []change{
			{name: "b", uid: "2", node: "n1", second: 9}, {name: "b", deleted: true}, {name: "a", uid: "1", node: "n1", second: 1},
		}, map[string]string{"n1": "1"}, []string{"n1", "n1", "n1"}},
		{"A19 the same name again with another UID", []change{
			{name: "a", uid: "1", node: "n1", second: 1}, {name: "a", deleted: true}, {name: "a", uid: "2", node: "n1", second: 2},
		}, map[string]string{"n1": "2"}, []string{"n1", "n1", "n1"}},
		{"A19 the same name again without a deletion in between", []change{
			{name: "a", uid: "1", node: "n1", second: 1}, {name: "a", uid: "2", node: "n1", second: 2},
		}, map[string]string{"n1": "2"}, []string{"n1", "n1"}},
		{"A19 the same name again, but older", []change{
			{name: "a", uid: "1", node: "n1", second: 2}, {name: "a", uid: "2", node: "n1", second: 1},
		}, map[string]string{"n1": ""}, []string{"n1", "n1"}},
		{"a name that another node has now", []change{
			{name: "a", uid: "1", node: "n1"}, {name: "a", uid: "2", node: "n2"},
		}, map[string]string{"n1": "", "n2": "2"}, []string{"n1", "n1", "n2"}},
		{"nodes do not hide each other's requests", []change{
			{name: "a", uid: "1", node: "n1", second: 1}, {name: "b", uid: "2", node: "n2", second: 2, decided: true},
		}, map[string]string{"n1": "1", "n2": ""}, []string{"n1"}},
		{"resourceVersions that are no numbers are the smallest", []change{
			{name: "a", uid: "1", node: "n1", version: -1}, {name: "b", uid: "2", node: "n1", version: 1}, {name: "c", uid: "3", node: "n1", version: -2},
		}, map[string]string{"n1": "2"}, []string{"n1", "n1"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var reported []string
			s := newStore(func(node string) { reported = append(reported, node) })
			for _, change := range c.changes {
				if change.deleted {
					s.remove(change.name)
				} else {
					s.set(change.pending())
				}
			}
			for node, want := range c.want {
				if got, ok := s.pending(node); string(got.UID) != want || ok != (want != "") {
					t.Errorf("%s: got %+v, %t, want %q", node, got, ok, want)
				}
			}
			slices.Sort(reported)
			if !slices.Equal(reported, c.reported) {
				t.Errorf("reported %v, want %v", reported, c.reported)
			}
			checkStore(t, s)
		})
	}
}

// A list after a new connection is compared with what was known: only what changed is reported.
func TestReplace(t *testing.T) {
	known := []change{
		{name: "same", uid: "1", node: "n1", second: 1},
		{name: "older", uid: "2", node: "n2", second: 1}, {name: "newest", uid: "3", node: "n2", second: 2},
		{name: "gone", uid: "4", node: "n3", second: 1},
		{name: "approved", uid: "5", node: "n4", second: 1},
		{name: "again", uid: "6", node: "n5", second: 1},
		{name: "moved", uid: "7", node: "n6", second: 1},
		{name: "hidden", uid: "8", node: "n8", second: 1}, {name: "deleted", uid: "9", node: "n8", second: 2},
	}
	listed := []change{
		{name: "same", uid: "1", node: "n1", second: 1, version: 77},
		{name: "newest", uid: "3", node: "n2", second: 2},
		{name: "approved", uid: "5", node: "n4", second: 1, decided: true},
		{name: "again", uid: "66", node: "n5", second: 2},
		{name: "moved", uid: "77", node: "n7", second: 2},
		{name: "hidden", uid: "8", node: "n8", second: 1},
		{name: "new", uid: "10", node: "n9", second: 3},
	}
	reported := map[string]int{}
	s := storeOf(known...)
	s.changed = func(node string) { reported[node]++ }
	s.replace(storeOf(listed...))
	checkStore(t, s)
	for node, want := range map[string]string{
		"n1": "1", "n2": "3", "n3": "", "n4": "", "n5": "66", "n6": "", "n7": "77", "n8": "", "n9": "10",
	} {
		if got, ok := s.pending(node); string(got.UID) != want || ok != (want != "") {
			t.Errorf("%s: got %+v, %t, want %q", node, got, ok, want)
		}
	}
	if p, _ := s.pending("n1"); p.ResourceVersion != "77" {
		t.Errorf("n1 kept resourceVersion %s", p.ResourceVersion)
	}
	want := map[string]int{"n3": 1, "n4": 1, "n5": 1, "n6": 1, "n7": 1, "n8": 1, "n9": 1}
	if !maps.Equal(reported, want) {
		t.Errorf("reported %v, want %v", reported, want)
	}
	clear(reported)
	s.replace(storeOf(listed...))
	if len(reported) > 0 {
		t.Errorf("the same list again is reported for %v", reported)
	}
	s.replace(storeOf())
	if len(s.requests)+len(s.newest)+len(s.count) > 0 {
		t.Errorf("an empty list leaves %v", s.newest)
	}
}

func storeOf(changes ...change) *store {
	s := newStore(func(string) {})
	for _, c := range changes {
		s.set(c.pending())
	}
	return s
}

// A09: one node's flood neither grows without end nor keeps others out, and its newest still counts.
func TestFlood(t *testing.T) {
	order := map[string]func(i int) int{
		"oldest first": func(i int) int { return i },
		"newest first": func(i int) int { return 30_000 - i },
	}
	for name, second := range order {
		t.Run("A09 of one node, "+name, func(t *testing.T) {
			s := storeOf()
			newest := 0
			for i := range 30_000 {
				newest = max(newest, second(i))
				s.set(change{name: fmt.Sprint("f", i), uid: fmt.Sprint(second(i)), node: "bad", second: second(i)}.pending())
			}
			s.set(change{name: "a", uid: "1", node: "n1", second: 1}.pending())
			if p, _ := s.pending("n1"); p.UID != "1" {
				t.Error("another node's request is not seen")
			}
			if p, _ := s.pending("bad"); string(p.UID) != strconv.Itoa(newest) {
				t.Errorf("its newest is %q", p.UID)
			}
			if len(s.requests) != maxPerNode+1 {
				t.Errorf("%d requests are kept", len(s.requests))
			}
			checkStore(t, s)
			for i := range 30_000 {
				s.remove(fmt.Sprint("f", i))
			}
			if len(s.requests) != 1 || len(s.newest) != 1 {
				t.Errorf("%d requests of %d nodes are left", len(s.requests), len(s.newest))
			}
		})
	}
	t.Run("A16 of any number of nodes", func(t *testing.T) {
		s := storeOf()
		for i := range maxKept + 100 {
			s.set(change{name: fmt.Sprint("f", i), uid: fmt.Sprint(i), node: fmt.Sprint("n", i)}.pending())
		}
		if len(s.requests) != maxKept || len(s.newest) != maxKept || len(s.count) != maxKept {
			t.Errorf("%d requests of %d nodes are kept", len(s.requests), len(s.newest))
		}
		// A node that is known is still followed: its newest request takes the place of the one before.
		s.set(change{name: "new", uid: "new", node: "n7", second: 1}.pending())
		if p, _ := s.pending("n7"); p.UID != "new" || len(s.requests) != maxKept {
			t.Errorf("got %+v, and %d requests are kept", p, len(s.requests))
		}
		checkStore(t, s)
		s.remove("f1")
		s.set(change{name: "other", uid: "other", node: "other"}.pending())
		if _, ok := s.pending("other"); !ok {
			t.Error("there is no room after a deletion")
		}
	})
}

// checkStore holds for every store: the counts are right, and every node has a newest request.
func checkStore(t *testing.T, s *store) {
	t.Helper()
	count := map[string]int{}
	for name, p := range s.requests {
		count[p.node]++
		if name != p.Name {
			t.Errorf("%q is kept as %q", p.Name, name)
		}
	}
	if !maps.Equal(count, s.count) || len(s.newest) != len(s.count) {
		t.Errorf("counted %v of %d nodes, want %v", s.count, len(s.newest), count)
	}
}

// model keeps everything and looks for the answer anew each time.
type model struct {
	kept []Pending
	// seen is the newest request that was ever seen of a node, as it was seen last.
	seen map[string]Pending
}

func (m *model) set(p Pending) {
	i := slices.IndexFunc(m.kept, func(k Pending) bool { return k.Name == p.Name })
	if i >= 0 && m.kept[i].node != p.node {
		m.remove(p.Name)
		i = -1
	}
	if seen := m.seen[p.node]; seen.UID == p.UID {
		p.order = seen.order
	}
	if i >= 0 && m.kept[i].UID == p.UID {
		p.order = m.kept[i].order
	}
	if i >= 0 {
		m.kept[i] = p
	} else {
		m.kept = append(m.kept, p)
	}
	before, seen := m.seen[p.node]
	later := p.Created.After(before.Created)
	if p.Created.Equal(before.Created) {
		later = p.order > before.order || p.order == before.order && p.UID > before.UID
	}
	if !seen || later || p.UID == before.UID {
		m.seen[p.node] = p
	}
}

func (m *model) remove(name string) {
	i := slices.IndexFunc(m.kept, func(k Pending) bool { return k.Name == name })
	if i < 0 {
		return
	}
	node := m.kept[i].node
	m.kept = slices.Delete(m.kept, i, i+1)
	if !slices.ContainsFunc(m.kept, func(k Pending) bool { return k.node == node }) {
		delete(m.seen, node)
	}
}

func (m *model) pending(node string) (Pending, bool) {
	p := m.seen[node]
	if p.decided || !slices.ContainsFunc(m.kept, func(k Pending) bool { return k.UID == p.UID && k.Name == p.Name && k.node == node }) {
		return Pending{}, false
	}
	return p, true
}

// Random changes, honest and not, lead to the same answers as the model's, and just the
// nodes whose answer changes are reported.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := &model{seen: map[string]Pending{}}
		reported := map[string]bool{}
		s := newStore(func(node string) { reported[node] = true })
		for step := range 60 {
			name := fmt.Sprint("c", random.IntN(8))
			c := change{
				name: name, node: fmt.Sprint("n", random.IntN(3)), uid: fmt.Sprint(name, random.IntN(3)),
				second: random.IntN(5), version: 1 + random.IntN(12), decided: random.IntN(3) == 0,
			}
			before := map[string]Pending{}
			for node := range 3 {
				before[fmt.Sprint("n", node)], _ = s.pending(fmt.Sprint("n", node))
			}
			clear(reported)
			switch random.IntN(10) {
			case 0, 1, 2:
				m.remove(name)
				s.remove(name)
			case 3:
				list := storeOf()
				for _, p := range m.kept {
					if random.IntN(3) > 0 {
						list.set(p)
					}
				}
				for _, p := range slices.Clone(m.kept) {
					if _, listed := list.requests[p.Name]; !listed {
						m.remove(p.Name)
					}
				}
				for _, p := range slices.Clone(m.kept) {
					m.set(p)
				}
				s.replace(list)
			default:
				m.set(c.pending())
				s.set(c.pending())
			}
			for node, old := range before {
				got, ok := s.pending(node)
				want, wanted := m.pending(node)
				if got != want || ok != wanted {
					t.Fatalf("seed %d, step %d, %s: got %+v, want %+v", seed, step, node, got, want)
				}
				if changed := old.UID != got.UID; changed != reported[node] {
					t.Fatalf("seed %d, step %d, %s: from %+v to %+v, reported: %t", seed, step, node, old, got, reported[node])
				}
			}
			checkStore(t, s)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func TestStoreConcurrently(t *testing.T) {
	var s *store
	// A callback may ask the store.
	s = newStore(func(node string) { s.pending(node) })
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 2000 {
				c := change{name: fmt.Sprint("c", i%50), uid: fmt.Sprint(i, worker), node: fmt.Sprint("n", i%7), second: i}
				switch i % 5 {
				case 0:
					s.remove(c.name)
				case 1:
					s.pending(c.node)
				case 2:
					s.replace(storeOf(c))
				default:
					s.set(c.pending())
				}
			}
		})
	}
	all.Wait()
	checkStore(t, s)
}

func TestStrip(t *testing.T) {
	csr := serving("csr-1", "n1", 5)
	csr.ResourceVersion = "7"
	want := change{name: "csr-1", uid: "uid-csr-1", node: "n1", second: 5, version: 7}
	if got, ours := strip(csr); !ours || got != want.pending() {
		t.Errorf("got %+v, %t", got, ours)
	}
	want.decided = true
	if got, _ := strip(decided(csr)); got != want.pending() {
		t.Errorf("E60: got %+v", got)
	}
	issued := csr.DeepCopy()
	issued.Status.Certificate = []byte("x")
	if got, _ := strip(issued); got != want.pending() {
		t.Errorf("issued: got %+v", got)
	}
	if _, ours := strip(&certificatesv1.CertificateSigningRequest{}); ours {
		t.Error("an empty object is ours")
	}
}
