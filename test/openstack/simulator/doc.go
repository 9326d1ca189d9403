// Package simulator is an OpenStack in one process: the parts of Keystone, Nova and Neutron that
// tell which addresses a server owns, for tests, demonstrations and benchmarks.
//
//	sim, err := simulator.New(simulator.Config{})
//	defer sim.Close()
//	project := sim.AddProject("demo")
//	credential := project.AddApplicationCredential("approver")
//	server := project.AddServer("node-1")
//	port := project.AddPort(server.ID, "10.0.0.5")
//	project.AddFloatingIP("203.0.113.5", port.ID)
//	// credential.CloudsYAML() and sim.CAPEM() are what a client needs.
//
// Answers have the shape, the status codes and the headers of the Zed release (compute
// microversions 2.1 to 2.93), as recorded from a real one. All services share one listener and
// have a path each: /identity, /compute and /network. The URLs of the catalog's internal and admin
// interfaces start with /internal and /admin, those of a second region with /region2, so that a
// client that picks the wrong endpoint is seen in the request log.
//
// State is plain data. Servers, ports and floating IPs are returned as copies and changed by ID,
// at any time and from any goroutine; every answer is computed from the state of that moment.
// An ID that does not exist is a mistake in the caller, and panics. The functions that change a
// row must not call the simulator.
//
// Requests and Count tell what clients asked. Inject makes answers fail, late, broken or endless:
//
//	sim.Inject(simulator.Fault{Operation: simulator.OpServer, Times: 2, Effect: sim.Status(429, "", "Retry-After", "5")})
//
// The services only read. Any other method gets the 403 that a project reader gets.
package simulator
