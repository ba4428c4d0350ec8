package domain

// SessionPage is one page of a user's sessions.
type SessionPage struct {
	Items []Session
	Total int
}
