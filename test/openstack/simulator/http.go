package simulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var interfaces = []string{"public", "internal", "admin"}

// route is what a path means.
type route struct {
	service   Service
	iface     string
	region    int      // from 1
	base      string   // path of the service, without a slash at the end
	rest      []string // path below base
	operation Operation
}

// parseRoute reads [/internal|/admin][/regionN]/service/rest...
func parseRoute(path string) route {
	rt := route{iface: "public", region: 1, operation: OpOther}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	used := 0
	if slices.Contains(interfaces[1:], parts[0]) {
		rt.iface, used = parts[0], 1
	}
	if used < len(parts) {
		if n, err := strconv.Atoi(strings.TrimPrefix(parts[used], "region")); err == nil && n > 1 {
			rt.region, used = n, used+1
		}
	}
	if used == len(parts) {
		return rt
	}
	rt.service, rt.rest = Service(parts[used]), parts[used+1:]
	rt.base = "/" + strings.Join(parts[:used+1], "/")
	rt.operation = rt.service.operation(rt.rest)
	return rt
}

func (service Service) operation(rest []string) Operation {
	path := strings.Join(rest, "/")
	versions := map[Service]string{Keystone: "v3", Nova: "v2.1", Neutron: ""}
	version, known := versions[service]
	switch {
	case !known:
		return OpOther
	case path == "" || path == version:
		return OpDiscovery
	case service == Keystone && path == "v3/auth/tokens":
		return OpToken
	case service == Nova && len(rest) == 3 && strings.HasPrefix(path, "v2.1/servers/"):
		return OpServer
	case service == Neutron && path == "v2.0/ports":
		return OpPorts
	case service == Neutron && path == "v2.0/floatingips":
		return OpFloatingIPs
	}
	return OpOther
}

// endpoint is the URL of a service in the catalog.
func (s *Simulator) endpoint(service Service, iface string, region int) string {
	url := s.url
	if iface != "public" {
		url += "/" + iface
	}
	if region > 1 {
		url += fmt.Sprintf("/region%d", region)
	}
	url += "/" + string(service)
	switch service {
	case Keystone:
		url += "/v3"
	case Nova:
		url += "/v2.1"
	}
	return url
}

// answer is a response before it is sent.
type answer struct {
	status     int
	header     http.Header
	body       any
	credential string // of the token that was given
}

func (a answer) write(w http.ResponseWriter) {
	body, err := json.Marshal(a.body)
	if err != nil {
		panic(err) // only maps, slices and strings get here
	}
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.Header().Set("Content-Type", cmp.Or(w.Header().Get("Content-Type"), "application/json"))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	w.Write(body)
}

func (s *Simulator) serve(w http.ResponseWriter, r *http.Request) {
	rt := parseRoute(r.URL.Path)
	rec := &recorder{ResponseWriter: w, log: &s.requests, entry: Request{
		Time: time.Now(), Service: rt.service, Operation: rt.operation, Interface: rt.iface,
		Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), UserAgent: r.UserAgent(),
		Microversion: cmp.Or(r.Header.Get("X-OpenStack-Nova-API-Version"), r.Header.Get("OpenStack-API-Version")),
	}}
	defer rec.finish()
	if rt.region > len(s.config.Regions) {
		rt.service = ""
	} else {
		rec.entry.Region = s.config.Regions[rt.region-1]
	}
	caller := s.caller(r)
	if caller.credential != nil {
		rec.entry.Credential = caller.credential.ID
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := s.answer(rt, caller, r)
		rec.entry.Credential = cmp.Or(a.credential, rec.entry.Credential)
		a.write(w)
	})
	if effect := s.faults.take(rec.entry, r); effect != nil {
		effect(rec, r, next)
		return
	}
	next(rec, r)
}

func (s *Simulator) answer(rt route, caller session, r *http.Request) answer {
	switch rt.service {
	case Keystone:
		return s.keystone(rt, r)
	case Nova:
		return s.nova(rt, caller, r)
	case Neutron:
		return s.neutron(rt, caller, r)
	}
	return answer{status: http.StatusNotFound, body: fmt.Sprintf("There is no service at %s.", r.URL.Path)}
}
