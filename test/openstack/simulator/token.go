package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// session is what a token stands for.
type session struct {
	credential *Credential
	project    *Project // nil for an unscoped token, which no service but Keystone takes
	expires    time.Time
	revoked    bool
}

func (s session) valid() bool {
	return s.project != nil && !s.revoked && time.Now().Before(s.expires)
}

// caller is who a request is from, also when the token is not good any more.
func (s *Simulator) caller(r *http.Request) session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if found, ok := s.sessions[r.Header.Get("X-Auth-Token")]; ok {
		return *found
	}
	return session{}
}

// signIn checks in Keystone's order: the body, then what it may ask for, then the secret.
func (s *Simulator) signIn(r *http.Request) answer {
	bad := func(what string) answer {
		return s.errorAnswer(Keystone, http.StatusBadRequest, fmt.Sprintf("Invalid input for %s. "+
			"The server could not comply with the request since it is either malformed or otherwise incorrect. "+
			"The client is assumed to be in error.", what))
	}
	refused := func(message string) answer { return s.errorAnswer(Keystone, http.StatusUnauthorized, message) }

	var request authRequest
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<17)).Decode(&request); err != nil || request.Auth == nil {
		return bad("field 'auth'")
	}
	identity := request.Auth.Identity
	if len(identity.Methods) != 1 {
		return bad("field 'methods': one is supported here")
	}
	var scope scopeRef
	if request.Auth.Scope != nil {
		if err := json.Unmarshal(request.Auth.Scope, &scope); err != nil {
			return bad("field 'scope'")
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch identity.Methods[0] {
	case "application_credential":
		ref := identity.ApplicationCredential
		if ref == nil || ref.ID == "" && (ref.Name == "" || ref.User == nil) {
			return bad("field 'application_credential'")
		}
		if request.Auth.Scope != nil {
			return refused("Error authenticating with application credential: Application credentials cannot request a scope.")
		}
		c := s.findCredential(func(c *Credential) bool {
			return c.Application && (ref.ID == c.ID || ref.ID == "" && ref.Name == c.Name && ref.User.is(c))
		})
		switch {
		case c == nil && ref.ID != "":
			return s.errorAnswer(Keystone, http.StatusNotFound, "Could not find Application Credential: "+ref.ID+".")
		case c == nil:
			return refused("Could not find application credential: " + ref.Name)
		case c.Secret != ref.Secret:
			return refused("")
		}
		return s.give(c, c.Project, identity.Methods)
	case "password":
		if identity.Password == nil {
			return bad("field 'password'")
		}
		user := identity.Password.User
		c := s.findCredential(func(c *Credential) bool { return !c.Application && user.is(c) })
		if c == nil || c.Secret != user.Password {
			return refused("")
		}
		if request.Auth.Scope == nil {
			return s.give(c, nil, identity.Methods)
		}
		p := scope.Project
		if p == nil || p.ID != c.Project.ID && (p.ID != "" || p.Name != c.Project.Name || !p.Domain.known()) {
			return refused("") // no such project, or no role in it
		}
		return s.give(c, c.Project, identity.Methods)
	}
	return refused("Attempted to authenticate with an unsupported method.")
}

func (s *Simulator) findCredential(match func(*Credential) bool) *Credential {
	for _, c := range s.credentials {
		if match(c) {
			return c
		}
	}
	return nil
}

// give makes a token.
func (s *Simulator) give(c *Credential, project *Project, methods []string) answer {
	const micros = "2006-01-02T15:04:05.000000Z"
	issued := now()
	current := &session{credential: c, project: project, expires: issued.Add(s.config.TokenLifetime)}
	value := "gAAAAAB" + strings.ReplaceAll(newHexID()+newHexID()+newHexID(), "0", "_")
	s.sessions[value] = current

	domain := map[string]any{"id": domainID, "name": domainName}
	token := map[string]any{
		"methods":    methods,
		"user":       map[string]any{"id": c.UserID, "name": c.UserName, "domain": domain, "password_expires_at": nil},
		"audit_ids":  []string{newHexID()[:22]},
		"issued_at":  issued.Format(micros),
		"expires_at": current.expires.Format(micros),
	}
	if project != nil {
		roles := []any{}
		for _, role := range c.Roles {
			roles = append(roles, map[string]any{"id": derivedHexID("role", role), "name": role})
		}
		token["project"] = map[string]any{"id": project.ID, "name": project.Name, "domain": domain}
		token["is_domain"] = false
		token["roles"] = roles
		token["catalog"] = s.catalog()
	}
	if c.Application {
		token["application_credential"] = map[string]any{"id": c.ID, "name": c.Name, "restricted": true}
	}
	return answer{
		status:     http.StatusCreated,
		header:     http.Header{"X-Subject-Token": {value}},
		body:       map[string]any{"token": token},
		credential: c.ID,
	}
}

func (s *Simulator) catalog() []any {
	catalog := []any{}
	for _, service := range []struct {
		Service
		name string
	}{{Keystone, "keystone"}, {Neutron, "neutron"}, {Nova, "nova"}} {
		endpoints := []any{}
		for i, region := range s.config.Regions {
			for _, iface := range slices.Sorted(slices.Values(interfaces)) {
				endpoints = append(endpoints, map[string]any{
					"id": derivedHexID("endpoint", service.name, region, iface), "interface": iface,
					"region": region, "region_id": region, "url": s.endpoint(service.Service, iface, i+1),
				})
			}
		}
		catalog = append(catalog, map[string]any{
			"id": derivedHexID("service", service.name), "type": service.Service, "name": service.name, "endpoints": endpoints,
		})
	}
	return catalog
}
