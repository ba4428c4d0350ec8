package domain

// RightsChange identifies whose rights were reduced; exactly one of its fields is set. It is
// sent between processes as JSON.
type RightsChange struct {
	KeyID     string    `json:"key_id,omitempty"`     // an API key that was revoked
	UserID    string    `json:"user_id,omitempty"`    // a user who was deleted or whose role changed
	SessionID SessionID `json:"session_id,omitempty"` // a session that was deleted or is no longer shared
}
