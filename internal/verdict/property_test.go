package verdict_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// world is one question to Judge.
type world struct {
	request  request.Request
	owner    verdict.Owner
	evidence verdict.Evidence
}

// The universe is small, so that things meet.
var (
	someNames     = []string{"n1", "n2", "n1.novalocal", ""}
	someAddresses = []netip.Addr{
		addr("10.0.0.5"), addr("::ffff:10.0.0.5"), addr("10.0.0.6"), addr("10.96.0.1"), addr("::ffff:10.96.0.1"),
		addr("192.168.3.4"), addr("2001:db8::5"), addr("2001:db8::5%eth0"), addr("::ffff:10.0.0.5%eth0"), addr("::10.0.0.5"), {},
	}
	someRanges = prefixes("10.96.0.0/12", "192.168.0.0/16", "::ffff:10.0.0.0/124", "2001:db8::/64", "10.0.0.4/31")
)

// worldOf reads a world out of bytes; each byte is one choice, and no bytes are the choice 0.
func worldOf(data []byte) world {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
	holding := func() verdict.Holding {
		h := verdict.Holding{Address: someAddresses[next(len(someAddresses))], Kind: verdict.Kind(next(4)), Provisioned: next(2) == 1}
		if next(3) == 1 {
			h.Inactive = "its port is DOWN"
		}
		return h
	}
	w := world{request: request.Request{UID: "u1", ResourceVersion: "7"}}
	for range next(3) {
		w.request.DNSNames = append(w.request.DNSNames, someNames[next(len(someNames))])
	}
	for range next(4) {
		w.request.Addresses = append(w.request.Addresses, someAddresses[next(len(someAddresses))])
	}
	for range next(4) {
		w.owner.Names = append(w.owner.Names, someNames[next(len(someNames))])
	}
	for range next(2) {
		w.owner.Reserved = append(w.owner.Reserved, verdict.Reserved{Address: someAddresses[next(len(someAddresses))]})
	}
	for range next(3) {
		w.owner.ClusterRanges = append(w.owner.ClusterRanges, someRanges[next(len(someRanges))])
	}
	for range next(7) {
		w.evidence.Holdings = append(w.evidence.Holdings, holding())
	}
	for range next(4) {
		w.evidence.Others = append(w.evidence.Others, verdict.OtherHolding{Machine: "m2", Holding: holding()})
	}
	return w
}

// mayBeApproved says the rules once more, in another way: over sets of addresses as the signer
// writes them, 16 bytes each, and without an order of rules.
func mayBeApproved(w world) bool {
	written := func(a netip.Addr) ([16]byte, bool) { return a.As16(), a.IsValid() && a.Zone() == "" }
	inRange := func(a [16]byte) bool {
		for _, cidr := range w.owner.ClusterRanges {
			low := cidr.Masked().Addr().As16()
			bits := cidr.Bits()
			if cidr.Addr().Is4() {
				bits += 96
			}
			inside := bits >= 96 || !netip.AddrFrom16(a).Is4In6()
			for bit := range bits {
				mask := byte(0x80 >> (bit % 8))
				inside = inside && low[bit/8]&mask == a[bit/8]&mask
			}
			if inside {
				return true
			}
		}
		return false
	}
	if len(w.request.DNSNames) == 0 && len(w.request.Addresses) == 0 {
		return false
	}
	own := map[string]bool{}
	for _, n := range w.owner.Names {
		own[n] = true
	}
	for _, n := range w.request.DNSNames {
		if !own[n] {
			return false
		}
	}
	type count struct{ made, madeFloating, later, laterFloating int }
	tally := func(all []verdict.Holding) map[[16]byte]count {
		counts := map[[16]byte]count{}
		for _, h := range all {
			a, ok := written(h.Address)
			if !ok || h.Inactive != "" {
				continue
			}
			c := counts[a]
			isFloating := 0
			if h.Kind == verdict.Floating {
				isFloating = 1
			}
			if h.Provisioned {
				c.made, c.madeFloating = c.made+1, c.madeFloating+isFloating
			} else {
				c.later, c.laterFloating = c.later+1, c.laterFloating+isFloating
			}
			counts[a] = c
		}
		return counts
	}
	var others []verdict.Holding
	for _, o := range w.evidence.Others {
		others = append(others, o.Holding)
	}
	mine, theirs := tally(w.evidence.Holdings), tally(others)
	for _, asked := range w.request.Addresses {
		a, ok := written(asked)
		reserved := slices.ContainsFunc(w.owner.Reserved, func(r verdict.Reserved) bool {
			b, ok := written(r.Address)
			return ok && a == b
		})
		if !ok || reserved {
			return false
		}
		i, they := mine[a], theirs[a]
		asMade := i.made > 0 && (i.madeFloating > 0 || they.made == 0)
		asLater := i.made == 0 && i.later > 0 && !inRange(a) && (i.laterFloating > 0 || they.made+they.later == 0)
		if !asMade && !asLater {
			return false
		}
	}
	return true
}

// checkWorld holds a verdict to the second statement of the rules, and to what is promised of all.
func checkWorld(t *testing.T, w world) bool {
	t.Helper()
	v := verdict.Judge(w.request, w.owner, w.evidence)
	approval, approved := v.Approval()
	if approved != mayBeApproved(w) {
		t.Errorf("approved: %v, but the rules say %v\n%+v\n%+v", approved, !approved, w, v)
	}
	if approved != (v.Reason == reason.Approved) || approved != approval.Covers(w.request.UID, w.request.ResourceVersion) {
		t.Errorf("reason %s, approval %v %+v", v.Reason, approved, approval)
	}
	if approved && len(v.Findings) > 0 {
		t.Errorf("approved with findings %+v", v.Findings)
	}
	if v.Reason.Entry().Meaning == "" {
		t.Errorf("%q is not in the list of reasons", v.Reason)
	}
	// What a cloud lists first must not matter.
	slices.Reverse(w.evidence.Holdings)
	slices.Reverse(w.evidence.Others)
	if again := verdict.Judge(w.request, w.owner, w.evidence); again.Reason != v.Reason {
		t.Errorf("%s, and in another order %s\n%+v", v.Reason, again.Reason, w)
	}
	return approved
}

func TestJudgeProperties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const runs = 100_000
	approved := 0
	for range runs {
		data := make([]byte, 64)
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		if checkWorld(t, worldOf(data)) {
			approved++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d of %d approved", approved, runs)
	if approved < runs/50 {
		t.Errorf("%d of %d approved: too few to test much", approved, runs)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0})
	f.Add([]byte{0, 1, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 3, 1, 0, 1, 0, 1, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) { checkWorld(t, worldOf(data)) })
}
