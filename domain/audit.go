package domain

import "time"

// AuditRecord is one use of a privilege: actor, action, target and time.
type AuditRecord struct {
	ID        string            `json:"id" db:"id" doc:"Its id." example:"01a1ff63-4525-7cf1-8ed1-26491c7842e7"`
	ActorID   string            `json:"actor_id" db:"actor_id" doc:"The user who did it." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	ActorName string            `json:"actor_name" db:"actor_name" doc:"User name; empty for an account that is gone." example:"admin"`
	Action    string            `json:"action" db:"action" doc:"As session.read or user.delete." example:"user.biz_roles"`
	Target    string            `json:"target" db:"target" doc:"Id of what it was done to." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
	Details   map[string]string `json:"details" db:"details" nullable:"false" doc:"Details." example:"{\"solution_id\": \"general\"}"`
	CreatedAt time.Time         `json:"created_at" db:"created_at" doc:"Creation time."`
}

// AuditQuery selects a page of the trail; empty filters match everything.
type AuditQuery struct {
	ActorID, Action, Target string
	Limit, Offset           int
}

// ExternalUser is a user of another system.
type ExternalUser struct {
	Sub   string
	Email string
	Name  string
}

// TokenState reports whether a person can sign in here with a token.
type TokenState struct {
	Sub     string `json:"sub" doc:"The person's id in the other system." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
	Email   string `json:"email" doc:"The e-mail address." example:"eve@example.org"`
	OK      bool   `json:"ok" doc:"An account fits, and it has a valid key."`
	Changed bool   `json:"changed" doc:"Name or email differ from the account's."`
	Message string `json:"message" doc:"The message in plain text." example:"the account has a valid key"`
}
