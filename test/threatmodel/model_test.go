package threatmodel

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in docs/threat-model.md anew")

const (
	root  = "../.."
	path  = root + "/docs/threat-model.md"
	begin = "<!-- made by test/threatmodel: begin -->\n"
	end   = "<!-- made by test/threatmodel: end -->\n"
)

// Every attack and case has a test with its id in the name, and the document says which.
func TestDocument(t *testing.T) {
	found := tests(t)
	for _, a := range attacks {
		if a.residual == "" && len(found[a.id]) == 0 {
			t.Errorf("attack %s has no test: %s", a.id, a.attack)
		}
	}
	for _, c := range cases {
		if c.later == "" && len(found[c.id]) == 0 {
			t.Errorf("case %s has no test: %s", c.id, c.what)
		}
	}
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(document), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s lacks the marks %q and %q", path, begin, end)
	}
	want := before + begin + tables(found) + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(document) {
		t.Errorf("%s is not what the tests are called; run: go test ./test/threatmodel -update", path)
	}
}

func tables(found map[string][]string) string {
	var b strings.Builder
	b.WriteString("\n| attack | | what stops it | tests |\n|---|---|---|---|\n")
	for _, a := range attacks {
		check := a.check
		if a.residual != "" {
			check = "**not stopped**: " + a.residual
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.id, a.attack, check, strings.Join(found[a.id], ", "))
	}
	b.WriteString("\n| case | | tests |\n|---|---|---|\n")
	for _, c := range cases {
		where := strings.Join(found[c.id], ", ")
		if c.later != "" {
			where = c.later
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.id, c.what, where)
	}
	return b.String() + "\n"
}

var (
	idForm = regexp.MustCompile(`\b[AE][0-9]{2}\b`)
	// A name begins with its ids, or holds them in brackets at its end.
	nameForm = regexp.MustCompile(`^[AE][0-9]{2}\b.*|.*\([AE][0-9]{2}(, [AE][0-9]{2})*\)$`)
)

// tests returns, for each id, the tests and fuzzers that have it in a subtest's name, or in the comment
// of the test, by package.
func tests(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.Contains(path, "threatmodel") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(function.Name.Name, "Test") && !strings.HasPrefix(function.Name.Name, "Fuzz") {
				continue
			}
			for _, id := range ids(function) {
				if found[id] == nil {
					found[id] = map[string]bool{}
				}
				found[id][filepath.Base(filepath.Dir(path))+"."+function.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for id, names := range found {
		out[id] = slices.Sorted(maps.Keys(names))
	}
	return out
}

func ids(function *ast.FuncDecl) []string {
	all := idForm.FindAllString(function.Doc.Text(), -1)
	ast.Inspect(function.Body, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && nameForm.MatchString(text) {
				all = append(all, idForm.FindAllString(text, -1)...)
			}
		}
		return true
	})
	return all
}
