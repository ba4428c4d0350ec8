// Package transfer contains the records of a session's conversation in replays, exports and
// archives, and the imports that are created from them. It reads no archives.
package transfer

import (
	"encoding/json"
	"time"

	"everloop/domain"
)

// Records of a session's conversation as stored: the content of a replay and of an export
// (docs/sharing.md).

// SessionTree is the frame of a session's conversation.
type SessionTree struct {
	ActiveBranchID domain.BranchID    `json:"active_branch_id"`
	Branches       []BranchRecord     `json:"branches"`
	Chats          []ChatRecord       `json:"chats"`
	Checkpoints    []CheckpointRecord `json:"-"` // an export has a member for them
}

// CheckpointRecord is one checkpoint, including checkpoints of tool batches.
type CheckpointRecord struct {
	ID         domain.CheckpointID   `json:"checkpoint_id" db:"id"`
	BranchID   domain.BranchID       `json:"branch_id" db:"branch_id"`
	TurnID     domain.TurnID         `json:"turn_id" db:"turn_id"`
	ChatID     *domain.ChatID        `json:"chat_id" db:"chat_id"`
	Kind       domain.CheckpointKind `json:"kind" db:"kind"`
	Sequence   int64                 `json:"sequence" db:"sequence"`
	Label      string                `json:"label" db:"label"`
	SnapshotID *string               `json:"snapshot_id" db:"snapshot_id"` // null: its files were not captured
	Changed    int                   `json:"changed" db:"changed"`
	Added      int                   `json:"added" db:"added"`
	Deleted    int                   `json:"deleted" db:"deleted"`
	Bytes      int64                 `json:"bytes" db:"bytes"`
	Complete   bool                  `json:"complete" db:"complete"`
	CreatedAt  time.Time             `json:"created_at" db:"created_at"`
}

// BranchRecord is one branch of the conversation.
type BranchRecord struct {
	ID             domain.BranchID  `json:"id" db:"id"`
	ParentBranchID *domain.BranchID `json:"parent_branch_id" db:"parent_branch_id"`
	ForkSequence   int64            `json:"fork_sequence" db:"fork_sequence"`
	NextSequence   int64            `json:"next_sequence" db:"next_sequence"`
	Lineage        []BranchAncestor `json:"lineage" db:"lineage"`
	Reason         string           `json:"reason" db:"reason"`
	ForkedFromID   *domain.TurnID   `json:"forked_from_id" db:"forked_from_id"`
	Name           *string          `json:"name" db:"name"`
	CreatedAt      time.Time        `json:"created_at" db:"created_at"`
}

// BranchAncestor is the sequence, exclusive, up to which a branch shows the entries of another.
type BranchAncestor struct {
	BranchID domain.BranchID `json:"branch_id"`
	UpTo     int64           `json:"upto"`
}

// ChatRecord is one chat.
type ChatRecord struct {
	ID           domain.ChatID        `json:"id" db:"id"`
	BranchID     domain.BranchID      `json:"branch_id" db:"branch_id"`
	Trigger      domain.Trigger       `json:"trigger" db:"trigger"`
	Mode         domain.Mode          `json:"mode" db:"mode"`
	Headless     bool                 `json:"headless" db:"headless"`
	OutputSchema json.RawMessage      `json:"output_schema,omitempty" db:"output_schema"`
	Model        *string              `json:"model" db:"model"`
	State        string               `json:"state" db:"state"` // queued, running, parked or ended
	Steps        int                  `json:"steps" db:"steps"`
	InputTokens  int64                `json:"input_tokens" db:"input_tokens"`
	OutputTokens int64                `json:"output_tokens" db:"output_tokens"`
	CacheRead    int64                `json:"cache_read_tokens,omitempty" db:"cache_read_tokens"`
	CacheWrite   int64                `json:"cache_write_tokens,omitempty" db:"cache_write_tokens"`
	Cost         domain.Cost          `json:"cost_usd,omitempty" db:"cost_nano"`
	Uncosted     int64                `json:"uncosted_tokens,omitempty" db:"uncosted_tokens"`
	Round        int                  `json:"round" db:"round"`
	StartedAt    *time.Time           `json:"started_at" db:"started_at"`
	FinishReason *domain.FinishReason `json:"finish_reason" db:"finish_reason"`
	ErrorCode    *string              `json:"error_code" db:"error_code"`
	ErrorMessage *string              `json:"error_message" db:"error_message"`
	EndedAt      *time.Time           `json:"ended_at" db:"ended_at"`
	CreatedAt    time.Time            `json:"created_at" db:"created_at"`
}

// EntryRecord is one turn with its tool calls.
type EntryRecord struct {
	ID                   domain.TurnID        `json:"id"`
	BranchID             domain.BranchID      `json:"branch_id"`
	Sequence             int64                `json:"sequence"`
	ParentID             *domain.TurnID       `json:"parent_id"`
	ChatID               domain.ChatID        `json:"chat_id"`
	LoopID               string               `json:"loop_id"`
	ParentForkToolCallID *string              `json:"parent_fork_tool_call_id"`
	Kind                 string               `json:"kind"`
	Role                 domain.Role          `json:"role"`
	Status               domain.TurnStatus    `json:"status"`
	Step                 int                  `json:"step"`
	Blocks               []domain.Block       `json:"blocks"`
	Parts                []domain.ContentPart `json:"parts,omitempty"`
	Model                string               `json:"model"`
	InputTokens          int64                `json:"input_tokens"`
	OutputTokens         int64                `json:"output_tokens"`
	CacheRead            int64                `json:"cache_read_tokens,omitempty"`
	CacheWrite           int64                `json:"cache_write_tokens,omitempty"`
	Cost                 domain.Cost          `json:"cost_usd,omitempty"`
	DurationMS           int64                `json:"duration_ms"`
	ContextWindow        int64                `json:"context_window"`
	Deprecated           bool                 `json:"deprecated"`              // on the requested branch
	DeprecatedOn         []domain.BranchID    `json:"deprecated_on,omitempty"` // branches of a what-if that omit it
	FailureReason        *string              `json:"failure_reason"`
	Compaction           json.RawMessage      `json:"compaction,omitempty"`
	StartedAt            time.Time            `json:"started_at"`
	EndedAt              *time.Time           `json:"ended_at"`
	Calls                []CallRecord         `json:"tool_calls"`
	ReasoningField       string               `json:"reasoning_field,omitempty"` // in which the model server sent the turn's thinking
	ServerMembers        string               `json:"server_members,omitempty"`  // members that the model server sent with the turn and needs back
}

// Usage returns the usage of the chat, as its end reported it.
func (c ChatRecord) Usage() domain.Usage {
	usage := domain.Usage{
		InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, CacheReadTokens: c.CacheRead, CacheWriteTokens: c.CacheWrite,
		Cost: c.Cost, UncostedTokens: c.Uncosted,
	}

	return usage.Shown()
}

// Usage returns the usage of the turn, as its end reported it.
func (e EntryRecord) Usage() domain.Usage {
	return domain.Usage{
		InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, CacheReadTokens: e.CacheRead, CacheWriteTokens: e.CacheWrite,
		Cost: e.Cost,
	}
}

// CallRecord is one tool call of the ledger.
type CallRecord struct {
	ID          string                `json:"id"`
	ToolName    string                `json:"tool_name"`
	DisplayName string                `json:"display_name"`
	Arguments   string                `json:"arguments"`
	Status      domain.ToolCallStatus `json:"status"`
	Phase       string                `json:"phase"`
	Result      string                `json:"result"`
	StartedAt   *time.Time            `json:"started_at"`
	DurationMS  int64                 `json:"duration_ms"`
	CreatedAt   time.Time             `json:"created_at"`
	Question    *QuestionRecord       `json:"question,omitempty"`
	Connections []domain.Connection   `json:"connections,omitempty"`
	Images      []domain.CallImage    `json:"images,omitempty"`

	ServerCallID  string `json:"server_call_id,omitempty"` // the id that the model server gave the call
	ServerMembers string `json:"server_members,omitempty"` // members that it sent with the call and needs back
}

// QuestionRecord is the question of a call.
type QuestionRecord struct {
	ID         string          `json:"id"`
	Questions  json.RawMessage `json:"questions"`
	State      string          `json:"state"` // open, answered or cancelled
	SourceLoop json.RawMessage `json:"source_loop,omitempty"`
	Answer     json.RawMessage `json:"answer,omitempty"`
	AskedAt    time.Time       `json:"asked_at"`
	ResolvedAt *time.Time      `json:"resolved_at"`
}

// UnarchivedChat is a chat that has ended and whose events are only in the log.
type UnarchivedChat struct {
	ChatID    domain.ChatID
	SessionID domain.SessionID
	Round     int
}

// ArchivedPage is the result of archiving one page of chats.
type ArchivedPage struct {
	After    string `json:"after"` // the last chat of the page
	Archived int    `json:"archived"`
	Failed   int    `json:"failed"`
	More     bool   `json:"more"`
}

// EventArchive is an object that contains a session's events from one position of the log,
// exclusive, up to another.
type EventArchive struct {
	SessionID domain.SessionID
	FromSeq   uint64
	UpToSeq   uint64
	Key       string
	Events    int
}
