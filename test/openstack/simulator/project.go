package simulator

import (
	"fmt"
	"time"
)

// Project owns credentials, servers, networks, ports and floating IPs. Its domain is Default.
type Project struct {
	ID   string
	Name string

	sim *Simulator
}

// AddProject makes an empty project.
func (s *Simulator) AddProject(name string) *Project {
	p := &Project{ID: newHexID(), Name: name, sim: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.projects {
		if other.Name == name {
			panic(fmt.Sprintf("simulator: there is a project %q already", name))
		}
	}
	s.projects[p.ID] = p
	return p
}

// AddUser makes a user who has a password and the role member in this project and in no other.
func (p *Project) AddUser(name, password string, changes ...func(*Credential)) *Credential {
	id := newHexID()
	return p.addCredential(&Credential{
		ID: id, Name: name, Secret: password, UserID: id, UserName: name, Roles: []string{"member", "reader"},
	}, changes)
}

// AddApplicationCredential makes an application credential with the role reader. Its owner is
// a user named after the project.
func (p *Project) AddApplicationCredential(name string, changes ...func(*Credential)) *Credential {
	return p.addCredential(&Credential{
		Application: true, ID: newHexID(), Name: name, Secret: newHexID() + newHexID(), Roles: []string{"reader"},
		UserID: derivedHexID(p.ID, "owner"), UserName: p.Name + "-owner",
	}, changes)
}

func (p *Project) addCredential(c *Credential, changes []func(*Credential)) *Credential {
	apply(c, changes)
	c.Project, c.sim = p, p.sim
	p.sim.mu.Lock()
	defer p.sim.mu.Unlock()
	if _, taken := p.sim.credentials[c.ID]; taken {
		panic(fmt.Sprintf("simulator: there is a credential %s already", c.ID))
	}
	p.sim.credentials[c.ID] = c
	return c
}

func apply[T any](row *T, changes []func(*T)) {
	for _, change := range changes {
		change(row)
	}
}

// mustGet is for IDs that come from the test itself.
func mustGet[T any](rows map[string]T, kind, id string) T {
	row, ok := rows[id]
	if !ok {
		panic(fmt.Sprintf("simulator: no %s has the ID %q", kind, id))
	}
	return row
}

func now() time.Time { return time.Now().UTC() }
