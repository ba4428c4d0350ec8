package domain

// SessionClass is what a session was made for. It says how long the session is kept
// (docs/operations.md#sessions-that-end).
type SessionClass string

// The four classes.
const (
	ClassChat     SessionClass = "chat" // of a person or a program; also one of a run in which a user has written since
	ClassSchedule SessionClass = "schedule"
	ClassDAG      SessionClass = "dag"
	ClassIssue    SessionClass = "issue"
)
