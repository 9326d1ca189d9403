package simulator

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Credential is what a client signs in with: a user's name and password, or an application
// credential's ID and secret. Its fields are not changed once it is made.
type Credential struct {
	// Application tells an application credential from a user.
	Application bool
	// ID is the application credential's, or the user's.
	ID string
	// Name is the application credential's, or the user's.
	Name string
	// Secret is the application credential's secret, or the user's password.
	Secret string
	// UserID and UserName belong to the owner of an application credential, or to the user.
	UserID, UserName string
	// Roles are the names of the roles in the token. The services here only look at the project.
	Roles []string
	// Project is the one that tokens are for.
	Project *Project

	sim *Simulator
}

// Delete removes the credential: its tokens are refused from now on, and no new one is given.
func (c *Credential) Delete() {
	c.RevokeTokens()
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	delete(c.sim.credentials, c.ID)
}

// RevokeTokens makes the tokens given so far useless. The client can sign in again.
func (c *Credential) RevokeTokens() {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	for _, session := range c.sim.sessions {
		if session.credential == c {
			session.revoked = true
		}
	}
}

// RevokeToken makes one token useless; it is the value that clients send as X-Auth-Token.
func (s *Simulator) RevokeToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mustGet(s.sessions, "token", token).revoked = true
}

// Cloud is an entry of a clouds.yaml file. Empty fields are left out of it.
type Cloud struct {
	Name      string
	AuthURL   string
	AuthType  string
	Region    string
	Interface string
	// Verify is the key of the same name; nil leaves it out.
	Verify *bool
}

// CloudsYAML writes a clouds.yaml file with the credential in it. Without changes the entry is
// named default and is for the first region and the public interface.
func (c *Credential) CloudsYAML(changes ...func(*Cloud)) string {
	cloud := Cloud{
		Name: "default", AuthURL: c.sim.AuthURL(), AuthType: "v3password",
		Region: c.sim.config.Regions[0], Interface: "public",
	}
	if c.Application {
		cloud.AuthType = "v3applicationcredential"
	}
	apply(&cloud, changes)

	var b strings.Builder
	line := func(indent int, key, value string) {
		if value != "" {
			quoted, _ := json.Marshal(value) // a JSON string is a YAML string, whatever is in it
			fmt.Fprintf(&b, "%*s%s: %s\n", indent, "", key, quoted)
		}
	}
	name, _ := json.Marshal(cloud.Name)
	fmt.Fprintf(&b, "clouds:\n  %s:\n    auth:\n", name)
	line(6, "auth_url", cloud.AuthURL)
	if c.Application {
		line(6, "application_credential_id", c.ID)
		line(6, "application_credential_secret", c.Secret)
	} else {
		line(6, "username", c.UserName)
		line(6, "password", c.Secret)
		line(6, "user_domain_name", domainName)
		line(6, "project_name", c.Project.Name)
		line(6, "project_domain_name", domainName)
	}
	line(4, "auth_type", cloud.AuthType)
	line(4, "region_name", cloud.Region)
	line(4, "interface", cloud.Interface)
	line(4, "identity_api_version", "3")
	if cloud.Verify != nil {
		fmt.Fprintf(&b, "    verify: %t\n", *cloud.Verify)
	}
	return b.String()
}
