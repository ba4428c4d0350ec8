// Package replay contains the data of a session's playback: its steps, entries and changes. The
// state of a playback belongs to its session, in domain.
package replay

import (
	"encoding/json"

	"everloop/domain"
	"everloop/domain/transfer"
)

// Preview reports whether a session can be replayed, and why not (docs/replay.md).
type Preview struct {
	SessionID domain.SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Intent    string           `json:"intent" doc:"The purpose of the session." example:"Write the release notes of June"`
	Supported bool             `json:"supported" doc:"Whether it is supported."`
	Reason    *string          `json:"reason" enum:"no_turns,still_running,unsupported_entries" doc:"The reason."`
}

// Reasons for which a session cannot be replayed.
const (
	NoTurns     = "no_turns"
	Running     = "still_running"
	Unsupported = "unsupported_entries"
)

// Change is a change of a replay; nil fields are unchanged. Resume continues playing, HandOver
// ends the playback at its position.
type Change struct {
	Speed    *int
	Resume   bool
	HandOver bool
}

// Step is one recorded event, prepared for the replay session: it contains only the replay's
// ids. Sequences and times are assigned when it is played.
type Step struct {
	Gap    int64           `json:"gap,omitempty"` // milliseconds since the previous step, as recorded
	Name   string          `json:"name"`
	ChatID domain.ChatID   `json:"chat_id"`
	Data   json.RawMessage `json:"data"`
	Entry  *Entry          `json:"entry,omitempty"` // with the event that starts a turn
	Files  string          `json:"files,omitempty"` // snapshot of the source's files from here on

	Checkpoint *transfer.CheckpointRecord `json:"checkpoint,omitempty"` // created by this step

	ServerCallID  string `json:"server_call_id,omitempty"` // with the event that adds a tool call
	ServerMembers string `json:"server_members,omitempty"` // of the same call
}

// Entry contains the stored data of a turn that its events do not include.
type Entry struct {
	Step          int                  `json:"step,omitempty"`
	Parts         []domain.ContentPart `json:"parts,omitempty"`
	ContextWindow int64                `json:"context_window,omitempty"`
	Deprecated    bool                 `json:"deprecated,omitempty"`
	Compaction    json.RawMessage      `json:"compaction,omitempty"`

	ReasoningField string `json:"reasoning_field,omitempty"`
	ServerMembers  string `json:"server_members,omitempty"`
}

// Names of steps that are not events. At a cut the playback was interrupted and all open items
// were closed; at a batch the tools of a turn had run, and their files were captured.
const (
	Cut   = "cut"
	Batch = "batch"
)

// NewReplay is a replay session to create.
type NewReplay struct {
	SessionID domain.SessionID // allocated before, like the ids in the script
	BranchID  domain.BranchID
	Source    domain.Session
	OwnerID   string
	Speed     int
	Script    string // object key
	Total     int
	Snapshot  string // of the source's files before its first turn; "" when there is none
}

// Claim is the stored state of a replay for the process that plays it. Attempt is the fencing
// token of every later write.
type Claim struct {
	SessionID  domain.SessionID
	SourceID   string
	Attempt    int
	Status     domain.ReplayStatus
	Speed      int
	Position   int
	Total      int
	Script     string
	SnapshotID string
	FilesOwed  bool
}

// PlayedSteps are steps that are due, in order, and the text of the affected turns after them,
// by turn id.
type PlayedSteps struct {
	SessionID domain.SessionID
	Attempt   int
	From      int // position of the first step
	Steps     []Step
	Text      map[domain.TurnID][]domain.Block
}

// CodeReplayOver rejects playing in a session that has diverged: a message was sent in it since
// the hand-over.
const CodeReplayOver = "replay_over"
