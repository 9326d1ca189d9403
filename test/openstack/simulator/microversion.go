package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// maxMicroversion is Zed's: 2.93.
const maxMicroversion = 93

// microversion reads the part after "2." of what the client wants. No header means 2.1.
func microversion(r *http.Request) (minor int, requested string, ok bool) {
	requested = strings.TrimSpace(r.Header.Get("X-OpenStack-Nova-API-Version"))
	if service, version, found := strings.Cut(r.Header.Get("OpenStack-API-Version"), " "); found && service == "compute" {
		requested = version // the newer header wins
	}
	requested = cmp.Or(requested, "2.1")
	if requested == "latest" {
		return maxMicroversion, fmt.Sprintf("2.%d", maxMicroversion), true
	}
	major, rest, found := strings.Cut(requested, ".")
	if _, err := strconv.Atoi(major); err != nil || !found {
		return 0, requested, false
	}
	minor, err := strconv.Atoi(rest)
	if major != "2" {
		minor = -1 // a version, but none that there is
	}
	return minor, requested, err == nil
}

func microversionHeader(requested string) http.Header {
	return http.Header{
		"Openstack-Api-Version":        {"compute " + requested},
		"X-Openstack-Nova-Api-Version": {requested},
		"Vary":                         {"OpenStack-API-Version, X-OpenStack-Nova-API-Version"},
	}
}
