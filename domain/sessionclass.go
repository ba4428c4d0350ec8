package domain

// SessionClass is the purpose of a session. It determines how long the session is retained
// (docs/operators/stuck-runs.md#sessions-that-end).
type SessionClass string

// The four classes.
const (
	ClassChat     SessionClass = "chat" // of a person or a program; also a run's session in which a user has written
	ClassSchedule SessionClass = "schedule"
	ClassDAG      SessionClass = "dag"
	ClassIssue    SessionClass = "issue"
)
