package simulator

import (
	"encoding/json"
	"net/http"
	"strings"
)

const domainName, domainID = "Default", "default"

func (s *Simulator) keystone(rt route, r *http.Request) answer {
	a := s.keystoneAnswer(rt, r)
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set("Vary", "X-Auth-Token")
	a.header.Set("X-Openstack-Request-Id", "req-"+newUUID())
	return a
}

func (s *Simulator) keystoneAnswer(rt route, r *http.Request) answer {
	url := s.url + rt.base + "/v3/"
	version := map[string]any{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "links": links("self", url),
		"media-types": []any{map[string]any{
			"base": "application/json", "type": "application/vnd.openstack.identity-v3+json",
		}},
	}
	switch {
	case rt.operation == OpDiscovery && r.Method != http.MethodGet,
		rt.operation == OpToken && r.Method != http.MethodPost:
		return s.errorAnswer(Keystone, http.StatusMethodNotAllowed, "The method is not allowed for the requested URL.")
	case rt.operation == OpDiscovery && len(rt.rest) == 0:
		return answer{
			status: http.StatusMultipleChoices,
			header: http.Header{"Location": {url}},
			body:   map[string]any{"versions": map[string]any{"values": []any{version}}},
		}
	case rt.operation == OpDiscovery:
		return answer{status: http.StatusOK, body: map[string]any{"version": version}}
	case rt.operation == OpToken:
		return s.signIn(r)
	}
	return s.errorAnswer(Keystone, http.StatusNotFound, "The requested URL was not found on the server.")
}

func links(rel, href string) []any {
	return []any{map[string]any{"rel": rel, "href": href}}
}

// The parts of a request for a token that are looked at.
type (
	authRequest struct {
		Auth *struct {
			Identity struct {
				Methods               []string
				Password              *struct{ User userRef }
				ApplicationCredential *applicationCredentialRef `json:"application_credential"`
			}
			Scope json.RawMessage
		}
	}
	applicationCredentialRef struct {
		ID, Name, Secret string
		User             *userRef
	}
	userRef struct {
		ID, Name, Password string
		Domain             *domainRef
	}
	domainRef struct{ ID, Name string }
	scopeRef  struct {
		Project *struct {
			ID, Name string
			Domain   *domainRef
		}
	}
)

func (d *domainRef) known() bool {
	return d != nil && (d.ID == domainID || d.ID == "" && strings.EqualFold(d.Name, domainName))
}

// is tells whether a reference is to the user of a credential.
func (u *userRef) is(c *Credential) bool {
	if u.ID != "" {
		return u.ID == c.UserID
	}
	return u.Name == c.UserName && u.Domain.known()
}
