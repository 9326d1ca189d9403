package approver

import (
	"math/rand/v2"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// again is when a refused or waiting request is judged again, by how often it was: facts may appear
// or change without an event that we see, a floating IP for one. The last one goes on for ever.
var again = []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}

const (
	// Somebody who did not answer is asked again after firstError, doubling to lastError.
	firstError = time.Second
	lastError  = time.Minute
)

// delay returns when to judge again, ±20 % so that what failed together does not come back together.
// 0 means not before something changes.
func delay(why reason.Reason, attempts int) time.Duration {
	var d time.Duration
	switch {
	case why.Entry().Final:
		return 0
	case why.Outcome() == reason.Refuse, why.Outcome() == reason.Wait:
		d = again[min(attempts, len(again)-1)]
	case why == reason.RequestChanged:
		d = firstError // it is judged anew, whatever it is now
	case why == reason.RequestGone:
		d = lastError // in case it is not: the store would have said so
	case why.Outcome() == reason.Error:
		d = min(firstError<<min(attempts, 6), lastError)
	default:
		return 0
	}
	return spread(d)
}

// spread is a delay of ±20 %.
func spread(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5) }
