package simulator

import (
	"fmt"
	"maps"
	"net/http"
)

func (s *Simulator) nova(rt route, caller session, r *http.Request) answer {
	if rt.operation == OpDiscovery && len(rt.rest) == 0 {
		return answer{status: http.StatusOK, body: map[string]any{"versions": []any{
			map[string]any{
				"id": "v2.0", "status": "SUPPORTED", "version": "", "min_version": "",
				"updated": "2011-01-21T11:33:21Z", "links": links("self", s.url+rt.base+"/v2/"),
			},
			s.novaVersion(rt),
		}}}
	}
	minor, requested, ok := microversion(r)
	var a answer
	switch {
	case rt.operation != OpDiscovery && !caller.valid():
		return s.novaHeaders(s.errorAnswer(Nova, http.StatusUnauthorized, ""), nil)
	case !ok:
		a = s.errorAnswer(Nova, http.StatusBadRequest, fmt.Sprintf(
			"API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", requested))
	case minor < 1 || minor > maxMicroversion:
		a = s.errorAnswer(Nova, http.StatusNotAcceptable, fmt.Sprintf(
			"Version %s is not supported by the API. Minimum is 2.1 and maximum is 2.%d.", requested, maxMicroversion))
	case rt.operation == OpDiscovery:
		version := s.novaVersion(rt)
		version["links"] = append(links("self", s.url+rt.base+"/v2.1/"),
			map[string]any{"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"})
		version["media-types"] = []any{map[string]any{
			"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1",
		}}
		a = answer{status: http.StatusOK, body: map[string]any{"version": version}}
	case r.Method != http.MethodGet:
		a = s.errorAnswer(Nova, http.StatusForbidden, "")
	case rt.operation == OpServer:
		a = s.showServer(rt, caller, rt.rest[2], minor)
	default:
		a = s.errorAnswer(Nova, http.StatusNotFound, "")
	}
	return s.novaHeaders(a, microversionHeader(requested))
}

func (s *Simulator) novaVersion(rt route) map[string]any {
	return map[string]any{
		"id": "v2.1", "status": "CURRENT", "version": fmt.Sprintf("2.%d", maxMicroversion), "min_version": "2.1",
		"updated": "2013-07-23T11:33:21Z", "links": links("self", s.url+rt.base+"/v2.1/"),
	}
}

func (s *Simulator) novaHeaders(a answer, more http.Header) answer {
	id := "req-" + newUUID()
	header := http.Header{"X-Openstack-Request-Id": {id}, "X-Compute-Request-Id": {id}}
	maps.Copy(header, a.header)
	maps.Copy(header, more)
	a.header = header
	return a
}

func (s *Simulator) showServer(rt route, caller session, id string, minor int) answer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	server, ok := s.servers.rows[id]
	if !ok || server.ProjectID != caller.project.ID || s.region(server.Region) != rt.region {
		return s.errorAnswer(Nova, http.StatusNotFound, fmt.Sprintf("Instance %s could not be found.", id))
	}
	body := s.serverBody(rt, server, minor)
	if server.CellDown {
		if minor < 69 {
			return s.errorAnswer(Nova, http.StatusInternalServerError, "")
		}
		known := []string{"id", "tenant_id", "user_id", "created", "links", "image", "flavor"}
		partial := map[string]any{
			"status": "UNKNOWN", "OS-EXT-AZ:availability_zone": "nova", "OS-EXT-STS:power_state": 0,
		}
		for _, key := range known {
			partial[key] = body[key]
		}
		if minor >= 71 {
			partial["server_groups"] = body["server_groups"]
		}
		body = partial
	}
	return answer{status: http.StatusOK, body: map[string]any{"server": body}}
}
