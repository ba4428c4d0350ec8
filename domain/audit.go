package domain

import "time"

// AuditRecord says who used which privilege, on what and when.
type AuditRecord struct {
	ID        string            `json:"id" db:"id"`
	ActorID   string            `json:"actor_id" db:"actor_id"`
	ActorName string            `json:"actor_name" db:"actor_name" doc:"User name; empty for an account that is gone."`
	Action    string            `json:"action" db:"action" doc:"As session.read or user.delete."`
	Target    string            `json:"target" db:"target" doc:"Id of what it was done to."`
	Details   map[string]string `json:"details" db:"details" nullable:"false"`
	CreatedAt time.Time         `json:"created_at" db:"created_at"`
}

// AuditQuery selects a page of the trail; empty filters select nothing away.
type AuditQuery struct {
	ActorID, Action, Target string
	Limit, Offset           int
}

// Person is somebody as another system knows him.
type Person struct {
	Sub   string
	Email string
	Name  string
}

// TokenState says whether a person can sign in here with a token.
type TokenState struct {
	Sub     string `json:"sub"`
	Email   string `json:"email"`
	OK      bool   `json:"ok" doc:"An account fits, and it has a valid key."`
	Changed bool   `json:"changed" doc:"Name or email differ from the account's."`
	Message string `json:"message"`
}
