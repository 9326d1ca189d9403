package owner

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestForms(t *testing.T) {
	long := strings.Repeat("a", 62)
	for _, test := range []struct {
		name    string
		infra   string
		domains []string
		want    []string
	}{
		{"plain", "n1", nil, []string{"n1"}},
		{"E43 upper case", "CLi-71", nil, []string{"cli-71"}},
		{"E45 dots, both of Nova's styles", "web.1", nil, []string{"web.1", "web-1"}},
		{"E46 domains", "web.1", []string{"novalocal", "Example.org"}, []string{
			"web.1", "web.1.novalocal", "web.1.example.org", "web-1", "web-1.novalocal", "web-1.example.org",
		}},
		{"E45 dots and a cut, both of Nova's styles", "a.b" + strings.Repeat("c", 63), nil, []string{
			"a.b" + strings.Repeat("c", 63), "a-b" + strings.Repeat("c", 60), "a.b" + strings.Repeat("c", 60),
		}},
		{"cut at 63, as Nova does before it strips", long + "-b", nil, []string{long + "-b", long}},
		{"empty", "", []string{"novalocal"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Forms(test.infra, test.domains); !slices.Equal(got, test.want) {
				t.Errorf("Forms(%q, %q) = %q, expected %q", test.infra, test.domains, got, test.want)
			}
		})
	}
}

func FuzzForms(f *testing.F) {
	f.Add("web.1", "novalocal")
	f.Add("..", "")
	f.Fuzz(func(t *testing.T, name, domain string) {
		if !utf8.ValidString(name) {
			t.Skip("object names are valid UTF-8")
		}
		seen := map[string]bool{}
		if strings.HasPrefix(domain, ".") {
			t.Skip("the flag refuses such a domain")
		}
		for _, form := range Forms(name, []string{domain}) {
			if form == "" || seen[form] {
				t.Errorf("Forms(%q, %q) has an empty or repeated form: %q", name, domain, form)
			}
			seen[form] = true
		}
	})
}
