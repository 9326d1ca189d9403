package owner

import (
	"regexp"
	"slices"
	"strings"
)

// maxLabel is where Nova cuts a host name (RFC 1123, one label).
const maxLabel = 63

var notHostname = regexp.MustCompile(`[^\w.-]+`)

// Forms returns every name that a node of an infrastructure machine may have, in lower case: the
// machine's name as it is, and as Nova turns it into a host name (nova/utils.py sanitize_hostname:
// dots become dashes since Wallaby and stayed dots before), each also with the given domains
// (cloud-init appends the metadata service's dhcp_domain on some images).
//
// Only names that are made from the management cluster's object are here. The names in Nova and
// Neutron can be changed by every member of the project, so they prove nothing (A25).
func Forms(infraName string, domains []string) []string {
	var forms []string
	add := func(name string) {
		if !slices.Contains(forms, name) {
			forms = append(forms, name)
		}
	}
	name := strings.ToLower(infraName)
	for _, form := range []string{
		name,
		hostname(strings.NewReplacer(" ", "-", "_", "-", ".", "-"), name),
		hostname(strings.NewReplacer(" ", "-", "_", "-"), name),
	} {
		if form == "" {
			continue
		}
		add(form)
		for _, domain := range domains {
			add(form + "." + strings.ToLower(domain))
		}
	}
	return forms
}

// hostname follows sanitize_hostname step by step, so that the cut falls where Nova's does.
func hostname(dashes *strings.Replacer, name string) string {
	if len(name) > maxLabel {
		name = name[:maxLabel]
	}
	return strings.Trim(notHostname.ReplaceAllString(dashes.Replace(name), ""), ".-")
}
