// Package reason is the closed list of everything the approver can say about a request.
//
// Events, metrics, logs, documentation and alerts all use these constants and nothing else, so the
// number of metric series is bounded and every word an operator meets can be looked up. What each
// reason leads to (its outcome) is part of the list: no caller decides that on its own.
package reason
