package reason_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

func TestProblem(t *testing.T) {
	for _, c := range []struct {
		problem *reason.Problem
		want    string
	}{
		{reason.New(reason.NoMachine, ""), "NoMachine"},
		{reason.New(reason.NoMachine, "node %s of %d", reason.Quote("n1"), 3), `NoMachine: node "n1" of 3`},
		// Without arguments a detail is a format all the same.
		{reason.New(reason.NoMachine, "100%%"), "NoMachine: 100%"},
	} {
		if got := c.problem.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestOf(t *testing.T) {
	problem := reason.New(reason.ServerNotFound, "server %q", "s1")
	var none *reason.Problem
	for _, c := range []struct {
		name   string
		err    error
		reason reason.Reason
		detail string
	}{
		{"itself", problem, reason.ServerNotFound, `server "s1"`},
		{"wrapped", fmt.Errorf("asking the cloud: %w", problem), reason.ServerNotFound, `server "s1"`},
		{"wrapped twice", fmt.Errorf("a: %w", fmt.Errorf("b: %w", problem)), reason.ServerNotFound, `server "s1"`},
		{"joined", errors.Join(errors.New("token=secret"), problem), reason.ServerNotFound, `server "s1"`},
		{"the outer of two", fmt.Errorf("%w, %w", reason.New(reason.NoMachine, ""), problem), reason.NoMachine, ""},
		// The words of others may hold a token, an address, anything.
		{"foreign", errors.New("token=secret"), reason.CloudUnavailable, ""},
		{"foreign, only its text", errors.New(problem.Error()), reason.CloudUnavailable, ""},
		{"no error", nil, reason.CloudUnavailable, ""},
		{"no problem in the error", none, reason.CloudUnavailable, ""},
		{"no problem in the error, wrapped", fmt.Errorf("a: %w", error(none)), reason.CloudUnavailable, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := reason.Of(c.err, reason.CloudUnavailable)
			if got == nil || got.Reason != c.reason || got.Detail != c.detail {
				t.Errorf("got %+v, want %s %q", got, c.reason, c.detail)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	for _, c := range []struct{ name, foreign, want string }{
		{"empty", "", `""`},
		{"plain", "n1.example.org", `"n1.example.org"`},
		{"quotes", `a"b\c`, `"a\"b\\c"`},
		{"line break, as a log would show it", "ok\nlevel=error", `"ok\nlevel=error"`},
		{"escape sequence", "\x1b[2J", `"\x1b[2J"`},
		{"zero and delete", "\x00\x7f", `"\x00\x7f"`},
		{"non-ASCII", "nö", `"n\u00f6"`},
		{"writing direction", "\u202etxt", `"\u202etxt"`},
		{"invalid UTF-8", "\xff", `"\xff"`},
		{"as long as may be", strings.Repeat("a", 100), `"` + strings.Repeat("a", 100) + `"`},
		{"one byte longer", strings.Repeat("a", 101), `"` + strings.Repeat("a", 100) + `"…`},
		{"cut inside a character", strings.Repeat("a", 99) + "ö", `"` + strings.Repeat("a", 99) + `\xc3"…`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reason.Quote(c.foreign); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if got := len(reason.Quote(strings.Repeat("\x1b", 10<<20))); got > 500 {
		t.Errorf("10 MB become %d bytes", got)
	}
}
