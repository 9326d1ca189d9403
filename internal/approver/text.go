package approver

import (
	"strings"
	"unicode/utf8"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/fleet"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

const (
	// maxNote is the longest note that the events API takes; a longer Event would be dropped.
	maxNote = 1024
	// maxListed bounds each list of names and addresses in a text.
	maxListed = 8
)

// headline is the log message of a decision.
func headline(why reason.Reason) string {
	switch why.Outcome() {
	case reason.Approve:
		return "Approved"
	case reason.Ignore:
		return "Ignored"
	case reason.Refuse:
		return "Not approved"
	case reason.Wait:
		return "Not approved yet"
	default:
		return "Could not judge"
	}
}

// describe is the Event's text without the request's name, so that the next request of the node
// with the same verdict has the same text.
func describe(key fleet.Key, d decision) string {
	why := d.problem.Reason
	text := "node " + key.Node + ": " + strings.ToLower(headline(why)[:1]) + headline(why)[1:] + ": " +
		why.Entry().Meaning + suffix(": ", detail(d))
	if why.Outcome() != reason.Approve {
		text += ". Next: " + why.Entry().Remedy + "."
	}
	return text
}

// detail says what was found: the problem's own words, or what the verdict found and what the
// machine has instead.
func detail(d decision) string {
	if d.problem.Detail != "" || d.verdict.Reason == "" {
		return d.problem.Detail
	}
	if len(d.verdict.Findings) == 0 {
		return ""
	}
	found := listed(d.verdict.Findings, func(f verdict.Finding) string {
		return f.SAN + " (" + string(f.Reason) + suffix(", ", f.Detail) + ")"
	})
	has := append([]string{}, d.verdict.Names...)
	for _, h := range d.verdict.Holdings {
		if h.Inactive == "" {
			has = append(has, h.Address.String()+" ("+h.Kind.String()+")")
		}
	}
	return found + "; the machine has " + listed(has, func(s string) string { return s })
}

func listed[T any](items []T, text func(T) string) string {
	texts := make([]string, 0, maxListed+1)
	for i, item := range items {
		if i == maxListed {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, text(item))
	}
	return strings.Join(texts, ", ")
}

func suffix(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// capped cuts a text to what an Event can hold, never inside a character.
func capped(text string) string {
	if len(text) <= maxNote {
		return text
	}
	const mark = "…"
	cut := maxNote - len(mark)
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}
