package domain

// SessionPage is one page of a user's sessions.
type SessionPage struct {
	Items     []Session
	Total     int
	Truncated bool // the search in message text looked at the newest messages only
}
