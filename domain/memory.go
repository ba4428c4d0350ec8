package domain

import "time"

// MemoryType is the kind of a memory: a user's preference or a finding.
type MemoryType string

// The two types (docs/memory.md).
const (
	MemoryFeedback   MemoryType = "feedback"
	MemoryExperience MemoryType = "experience"
)

// Memory is one fact for later sessions. It belongs to a user; Owner is a free-form label of
// the client.
type Memory struct {
	ID            int64      `json:"id" db:"id" doc:"Its id." example:"1"`
	Type          MemoryType `json:"type" db:"type" enum:"feedback,experience" doc:"The type."`
	Content       string     `json:"content" db:"content" doc:"The content of the memory." example:"Release notes begin with what users see."`
	SkillName     *string    `json:"skill_name" db:"skill_name" doc:"The skill that it belongs to."`
	RecordType    *string    `json:"record_type" db:"record_type" doc:"The record type."`
	Scope         *string    `json:"scope" db:"scope" doc:"Its scope."`
	Owner         *string    `json:"owner" db:"owner" doc:"The owner."`
	Topic         *string    `json:"topic" db:"topic" doc:"The topic." example:"style"`
	ExternalID    *string    `json:"external_id" db:"external_id" doc:"An id of another system."`
	SupersededBy  *int64     `json:"superseded_by" db:"superseded_by" doc:"The memory that replaced it; null: none."`
	WriteReason   *string    `json:"write_reason" db:"write_reason" doc:"The reason why it was stored."`
	CreatedAt     time.Time  `json:"created_at" db:"created_at" doc:"Creation time."`
	UpdatedAt     *time.Time `json:"updated_at" db:"updated_at" doc:"Time of the last change."`
	HitCount      int64      `json:"hit_count" db:"hit_count" doc:"Number of uses." example:"0"`
	LastHitAt     *time.Time `json:"last_hit_at" db:"last_hit_at" doc:"Time of the last use; null: never."`
	Disabled      bool       `json:"disabled" db:"disabled" doc:"Whether it is disabled."`
	SourceSession string     `json:"source_session" db:"source_session" doc:"The session in which the agent wrote it; empty for a client's own."`
}

// NewMemory is a memory to store. Supersedes names an older one that it replaces.
type NewMemory struct {
	Type          MemoryType
	Content       string
	SkillName     *string
	RecordType    *string
	Scope         *string
	Owner         *string
	Topic         *string
	ExternalID    *string
	WriteReason   *string
	SourceSession string
	Supersedes    int64
	// DisabledAfter is a chat: the memory is disabled when created, and replaces no other, if
	// the chat has read external content. Empty: always enabled.
	DisabledAfter ChatID
	// CallID is the tool call that writes it, so that a retried call writes nothing twice;
	// empty for a client's own.
	CallID string
}

// RecalledMemory is a memory that the agent is reminded of. Score is how well it matches the
// question; 0: it applies to every question.
type RecalledMemory struct {
	ID      int64
	Type    MemoryType
	Topic   *string
	Content string
	Score   float64
}

// MemoryField is one field of a change of a memory: a nil value clears it.
type MemoryField struct {
	Column string
	Value  *string
}

// MemoryQuery selects a page of a user's memories, newest first. Empty filters match
// everything; Keyword is a literal, case-insensitive part of the content.
type MemoryQuery struct {
	UserID     string
	Keyword    string
	SkillName  string
	Type       string
	RecordType string
	Scope      string
	Owner      string
	Topic      string
	Status     string // active, disabled or superseded
	Limit      int
	Offset     int
}

// MemoryNotFound returns the error for a memory that is missing or another user's.
func MemoryNotFound(id int64) *Error {
	return Newf(NotFound, "memory_not_found", "memory %d does not exist", id)
}
