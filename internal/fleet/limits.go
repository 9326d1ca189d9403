package fleet

import "time"

// limits are the times and numbers that bound what one workload cluster can cost.
type limits struct {
	// reread is how often the kubeconfig is read again although nothing failed.
	reread time.Duration
	// A cluster that cannot be followed is tried again after minBackoff, doubling to maxBackoff.
	minBackoff, maxBackoff time.Duration
	// steady is how long a cluster must have been followed for its next failure to count as the first,
	// and how old a list must be to be replaced at once when the watch cannot go on from it.
	steady time.Duration
	// answer is how long a page of a list may take, and the beginning and the end of a watch.
	answer time.Duration
	// watch to twice watch is how long a watch is asked to last.
	watch time.Duration
	// hasty is how long a watch must last at least to be taken up again at once. A server that ends
	// each watch right away must not be asked in a loop.
	hasty time.Duration
	// pages a list may have.
	pages int
}

var defaultLimits = limits{
	reread:     time.Hour,
	minBackoff: time.Second,
	maxBackoff: 5 * time.Minute,
	steady:     time.Minute,
	answer:     30 * time.Second,
	watch:      5 * time.Minute, // the server's default is the same
	hasty:      time.Second,
	pages:      20_000, // as many as requests are kept, for pages of one
}
