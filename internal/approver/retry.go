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
	d := earliest(why, attempts)
	if d == 0 {
		return 0
	}
	return d + rand.N(d/2)
}

// earliest is the least that delay returns.
func earliest(why reason.Reason, attempts int) time.Duration {
	switch {
	case why.Entry().Final:
		return 0
	case why.Outcome() == reason.Refuse, why.Outcome() == reason.Wait:
		return again[min(attempts, len(again)-1)] * 4 / 5
	case why.Outcome() == reason.Error:
		return min(firstError<<min(attempts, 6), lastError) * 4 / 5
	}
	return 0
}
