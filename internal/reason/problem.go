package reason

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Problem is an error: a reason with the words for the person who reads it. Its text goes into Events and logs
// as it stands, so nothing raw from a cloud or another API server belongs into it: who makes one
// quotes what a node or tenant wrote (%q) and leaves out what might be secret.
type Problem struct {
	Reason Reason
	// Detail says what was found and what was expected. May be empty.
	Detail string
	// RetryAfter is how long whoever could not answer wants to be left alone. 0: it did not say.
	RetryAfter time.Duration
}

// New makes a Problem. The detail is formatted like fmt.Sprintf.
func New(r Reason, detail string, args ...any) *Problem {
	return &Problem{Reason: r, Detail: fmt.Sprintf(detail, args...)}
}

func (e *Problem) Error() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return string(e.Reason) + ": " + e.Detail
}

// Of finds the Problem in a chain. An error without one has no words that are safe to show, so the
// given reason stands in for it and its text is dropped.
func Of(err error, otherwise Reason) *Problem {
	var e *Problem
	if errors.As(err, &e) && e != nil {
		return e
	}
	return &Problem{Reason: otherwise}
}

// quoteLimit bounds foreign text: long enough for every DNS name that a node may honestly have.
const quoteLimit = 100

// Quote makes text that a node, a tenant or a cloud wrote safe to show: quoted, without control
// or non-ASCII characters, and cut after 100 bytes.
func Quote(foreign string) string {
	if len(foreign) > quoteLimit {
		return strconv.QuoteToASCII(foreign[:quoteLimit]) + "…"
	}
	return strconv.QuoteToASCII(foreign)
}
