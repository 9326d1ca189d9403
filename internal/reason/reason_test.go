package reason_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// constants reads the names and values of all constants of type Reason from the source: a constant
// that nobody entered into the list is seen nowhere else.
func constants(t *testing.T) map[string]reason.Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]reason.Reason{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		kind, ok := spec.Type.(*ast.Ident)
		if !ok || kind.Name != "Reason" || len(spec.Names) != 1 || len(spec.Values) != 1 {
			t.Fatalf("%s is not declared as NAME Reason = \"NAME\"", spec.Names[0])
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s has no literal value", spec.Names[0])
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found[spec.Names[0].Name] = reason.Reason(value)
		return true
	})
	return found
}

func TestEveryConstantIsInTheList(t *testing.T) {
	all, declared := reason.All(), constants(t)
	if len(declared) < 50 {
		t.Fatalf("only %d constants found: is the source still where it was?", len(declared))
	}
	for name, value := range declared {
		if string(value) != name {
			t.Errorf("%s has the value %q: who looks for one must find the other", name, value)
		}
		if !slices.Contains(all, value) {
			t.Errorf("%s is not in the list", name)
		}
	}
	for _, r := range all {
		if _, ok := declared[string(r)]; !ok {
			t.Errorf("%s is in the list, but not a constant of reason.go", r)
		}
	}
}

func TestEntries(t *testing.T) {
	camelCase := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	outcomes := []reason.Outcome{reason.Ignore, reason.Approve, reason.Refuse, reason.Wait, reason.Error}
	meanings := map[string]reason.Reason{}
	for _, r := range reason.All() {
		entry := r.Entry()
		// An Event with a longer reason is dropped by its sender.
		if len(r) > 128 || !camelCase.MatchString(string(r)) {
			t.Errorf("%s is not CamelCase of at most 128 characters", r)
		}
		if !slices.Contains(outcomes, entry.Outcome) {
			t.Errorf("%s leads to nothing: %v", r, entry.Outcome)
		}
		if r.Outcome() != entry.Outcome {
			t.Errorf("%s leads to %s, its entry says %s", r, r.Outcome(), entry.Outcome)
		}
		for _, text := range []string{entry.Meaning, entry.Remedy} {
			if text == "" || text != strings.TrimSpace(text) || strings.HasSuffix(text, ".") {
				t.Errorf("%s: the text %q is empty, or does not fit into a sentence", r, text)
			}
		}
		if other, ok := meanings[entry.Meaning]; ok {
			t.Errorf("%s means what %s means", r, other)
		}
		meanings[entry.Meaning] = r
		if entry.Outcome == reason.Approve && r != reason.Approved {
			t.Errorf("%s approves", r)
		}
		if entry.Final && entry.Outcome != reason.Refuse {
			t.Errorf("%s is final, but leads to %s", r, entry.Outcome)
		}
	}
	if reason.Approved.Outcome() != reason.Approve {
		t.Error("Approved does not approve")
	}
}

func TestAllIsSorted(t *testing.T) {
	all := reason.All()
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("not sorted, or not each once: %v", all)
	}
	all[0] = "Changed"
	if reason.All()[0] == "Changed" {
		t.Error("the caller can change the list")
	}
}

// A word from outside must not read as a decision.
func TestForeignReason(t *testing.T) {
	for _, r := range []reason.Reason{"", "NoSuchReason", "approved"} {
		if o := r.Outcome(); o.String() != "invalid" || r.Entry() != (reason.Entry{}) {
			t.Errorf("%q leads to %s: %+v", r, o, r.Entry())
		}
	}
}

func TestOutcome(t *testing.T) {
	for outcome, want := range map[reason.Outcome]string{
		reason.Ignore: "ignored", reason.Approve: "approved", reason.Refuse: "refused",
		reason.Wait: "waiting", reason.Error: "error", 0: "invalid", 99: "invalid", -1: "invalid",
	} {
		if got := outcome.String(); got != want {
			t.Errorf("outcome %d is %q, want %q", outcome, got, want)
		}
	}
}
