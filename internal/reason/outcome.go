package reason

// Outcome is what happens to a request. The zero value is none of them, so a forgotten
// assignment never reads as a decision.
type Outcome int

const (
	_ Outcome = iota
	// Ignore means that the request is not ours. No Event, no condition.
	Ignore
	// Approve means that every rule holds.
	Approve
	// Refuse means that a rule failed on facts that we have. The request stays Pending; nothing is ever denied.
	Refuse
	// Wait means that a fact that is expected to appear is missing.
	Wait
	// Error means that somebody could not be asked.
	Error
)

// String is the value of the metric label "result".
func (o Outcome) String() string {
	switch o {
	case Ignore:
		return "ignored"
	case Approve:
		return "approved"
	case Refuse:
		return "refused"
	case Wait:
		return "waiting"
	case Error:
		return "error"
	default:
		return "invalid"
	}
}
