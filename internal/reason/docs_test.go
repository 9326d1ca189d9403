package reason_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

var update = flag.Bool("update", false, "write docs/reasons.md anew")

// docs/reasons.md is made from the closed list, so that it cannot say something else.
func TestDocs(t *testing.T) {
	const path = "../../docs/reasons.md"
	want := document()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the list of reasons says; run: go test ./internal/reason -run TestDocs -update", path)
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(`# Reasons

Every decision has one of these reasons. It is the reason of the Event, the label ` + "`reason`" + ` of
` + "`csr_approver_decisions_total`" + ` and the log key ` + "`reason`" + `. The list is closed: ` + "`internal/reason`" + ` holds it,
and this page is made from it.

| result | what happens |
|---|---|
| ignored | the request is not ours: nothing |
| approved | the condition Approved is added |
| refused | a rule failed: the request stays pending, an Event at once and every 30 minutes. Judged again when the Machine changes and after 15 s, 30 s, 1, 2, 5 min, then every 5 min, unless marked final |
| waiting | a fact is missing: as refused, but the Event comes after a minute |
| error | somebody could not be asked: again after 1 s, doubling to 1 min, the Event after a minute |

Nothing is ever denied: a denied kubelet asks again every 32 seconds for ever, a pending one every 15 minutes.
Final reasons are about the request's own bytes, so that request is never judged again; the kubelet's next one is.

| reason | result | means | what to do |
|---|---|---|---|
`)
	for _, r := range reason.All() {
		e := r.Entry()
		result := e.Outcome.String()
		if e.Final {
			result += ", final"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r, result, e.Meaning, e.Remedy)
	}
	return b.String()
}
