// Package reason is the closed list of everything the approver can say about a request.
package reason
