package domain

import "time"

// CompactionTrigger is why a history was summarised.
type CompactionTrigger string

// Auto precedes a model call that would pass the threshold; overflow follows a model server's
// rejection of a prompt that is too long; manual is a client's request.
const (
	CompactAuto     CompactionTrigger = "auto"
	CompactManual   CompactionTrigger = "manual"
	CompactOverflow CompactionTrigger = "overflow"
)

// CompactionStatus is how a compaction ended.
type CompactionStatus string

// A skipped compaction found nothing to do, or was late; running has no result yet.
const (
	CompactionRunning   CompactionStatus = "running"
	CompactionCompleted CompactionStatus = "completed"
	CompactionSkipped   CompactionStatus = "skipped"
	CompactionFailed    CompactionStatus = "failed"
)

// CompactionRequest requests the compaction of one loop of a session: of a chat's loop, before
// or instead of its model call Step, or, with only the id, the compaction that a client
// requested.
type CompactionRequest struct {
	ID        string
	SessionID SessionID
	ChatID    ChatID
	LoopID    string
	Step      int
	Trigger   CompactionTrigger
}

// OpenedCompaction is the stored state of a compaction. Unless Result.Status is running there
// is no work left.
type OpenedCompaction struct {
	ID        string
	BranchID  BranchID
	LoopID    string
	Trigger   CompactionTrigger
	StartedAt time.Time
	Session   Session
	Chat      ChatSettings // of the chat that needs it; with the session's model for one that a client requested
	Loop      LoopSettings
	InChat    bool // a chat of the loop runs or waits for an answer
	Stopped   bool // that chat was stopped, or has ended
	Work      CompactionWork
	Result    CompactionResult
	Exhausted bool // of a finished one: see ClosingCompaction.Threshold
}

// CompactionWork is the progress of a compaction. The archived turns are fixed when it starts;
// later turns do not change them.
type CompactionWork struct {
	Planned  bool   `json:"planned"`
	BaseID   string `json:"base_id,omitempty"` // the compaction at the start of the history
	KeptFrom int64  `json:"kept_from"`         // sequence of the first turn that is not summarised
	Pinned   *int64 `json:"pinned,omitempty"`  // sequence of an earlier turn that stays too: the user's last request
	Count    int    `json:"count"`             // turns that leave the context
	ChatID   ChatID `json:"chat_id,omitempty"` // the chat of the last of them
	Before   int64  `json:"before"`            // tokens
	Upto     int64  `json:"upto"`              // the summary covers the turns up to this sequence; -1: none yet
	Summary  string `json:"summary,omitempty"`
	Usage    Usage  `json:"usage"`
	Piece    int    `json:"piece,omitempty"` // tokens of a piece, set after the server rejected a longer one

	// of the summary's model calls since the last success
	Faults      int       `json:"faults,omitempty"`
	FaultsSince time.Time `json:"faults_since,omitzero"`
	RetryAt     time.Time `json:"retry_at,omitzero"`
}

// ClosingCompaction is the outcome of a compaction.
type ClosingCompaction struct {
	ID            string
	SessionID     SessionID
	Status        CompactionStatus
	Reason        string // of a skipped or failed compaction
	Work          CompactionWork
	After         int64 // tokens
	Below         *bool // whether the context is below its threshold now; nil: it does not count
	Model         string
	ContextWindow int64
	Duration      time.Duration
}

// CompactionResult is the response to a compaction request (docs/context.md#compaction). Tokens
// are estimates where the model server does not report them.
type CompactionResult struct {
	CompactionID   string           `json:"compaction_id" doc:"The summary." example:"01a1ff63-3ba3-7f32-95d5-853a93c3f0f3"`
	Status         CompactionStatus `json:"status" enum:"running,completed,skipped,failed" doc:"Its status."`
	Reason         string           `json:"reason,omitempty" doc:"Why it was skipped or failed."`
	ArchivedCount  int              `json:"archived_count" doc:"Turns that left the model's context; they stay in the messages." example:"6"`
	TokensBefore   int64            `json:"tokens_before" doc:"Tokens of the context before it." example:"2593"`
	TokensAfter    int64            `json:"tokens_after" doc:"Tokens of the context after it." example:"2523"`
	SavedRatio     float64          `json:"saved_ratio" doc:"Share of the tokens that was saved, 0 to 1." example:"0.02699575780948708"`
	SummaryPreview string           `json:"summary_preview" doc:"The first characters of the summary."`
	DurationMS     int64            `json:"duration_ms" doc:"Duration in milliseconds." example:"775"`
}

// CompactionRun identifies a compaction that should be running.
type CompactionRun struct {
	ID        string    `db:"id"`
	SessionID SessionID `db:"session_id"`
	OwnerID   string    `db:"owner_id"`
}

// Transcript is the conversation as a loop's next model call sends it: the turns since the last
// summary, and that summary.
type Transcript struct {
	CompactionID string // "" before the first compaction
	CompactedAt  int64  // its sequence
	Summary      string
	Turns        []TranscriptTurn
	Recalled     []RecalledMemory // of the chat; nil: not recalled yet
}

// TranscriptQuery selects the turns of a loop on a branch, from one sequence to before another.
// ChatID is the requesting chat; empty: the loop's last chat.
type TranscriptQuery struct {
	ChatID   ChatID
	BranchID BranchID
	LoopID   string
	Before   int64
	From     int64
}

// ContextWeight estimates a prompt's size without building it: the tokens that the model server
// reported for the loop's last prompt, and the text added since.
type ContextWeight struct {
	Running  bool // the loop's chat runs and was not stopped
	Opened   bool // the turn of this model call is open already
	Session  Session
	Chat     ChatSettings
	Loop     LoopSettings
	Reported int64 // tokens of the last prompt since the last compaction; 0: none was reported
	Bytes    int64 // of all text added since then
	Images   int64 // among it

	UsedTokens int64 // tokens of the budget that the session's chats have used
	UsedCost   Cost
	OwnerCalls int64 // model calls of the owner on this day (UTC), of all sessions
}

// MemoryRef records in a turn that a memory was found for its chat. Used reports that the
// request of the turn's end contained it.
type MemoryRef struct {
	MemoryID int64   `json:"memory_id"`
	Score    float64 `json:"score,omitempty"`
	Used     bool    `json:"used"`
}

// ContextStats describes the prompt of the next model call of a session's main loop by kind of
// content, in tokens (docs/context.md#context-statistics).
type ContextStats struct {
	Model          string            `json:"model" doc:"The model." example:"everloop-demo"`
	ContextWindow  int64             `json:"context_window" doc:"Context window of the model in tokens." example:"128000"`
	UsedTokens     int64             `json:"used_tokens" doc:"Tokens of the next prompt." example:"2591"`
	UsedPct        float64           `json:"used_pct" doc:"Percent of the context window." example:"2.02"`
	ReservedOutput int64             `json:"reserved_output" doc:"Tokens above the threshold, which are left to the answer." example:"25600"`
	Categories     []ContextCategory `json:"categories" doc:"Tokens by category."`
	Largest        []ContextEntry    `json:"largest" doc:"The entries that take most, at most ten."`
	ThresholdPct   int               `json:"threshold_pct" doc:"Percent of the context window at which the history is summarised." example:"80"`
	Compactions    int               `json:"compactions" doc:"Summaries on the active branch." example:"0"`
	Estimated      bool              `json:"estimated" doc:"false: the model's own tokenizer counted."`
	Tokenizer      string            `json:"tokenizer" doc:"The tokenizer, or estimate." example:"estimate"`

	PromptCut *PromptCut `json:"prompt_cut,omitempty" doc:"The last prompt of a day that the server of the model cut; absent: none is known."`
}

// ContextCategory is one kind of content.
type ContextCategory struct {
	Name   string  `json:"name" enum:"system_prompt,tools,skills,memories,messages,tool_results,files,summary" doc:"Its name."`
	Tokens int64   `json:"tokens" doc:"Number of tokens." example:"72"`
	Pct    float64 `json:"pct" doc:"Percent of the context window." example:"0.06"`
	Count  int     `json:"count" doc:"Number of entries." example:"1"`
}

// ContextEntry is one entry of the conversation and its size.
type ContextEntry struct {
	EntryID TurnID `json:"entry_id" doc:"The entry of the history." example:"01a1ff63-394f-77ef-bc09-d743bca6bb7b"`
	Tokens  int64  `json:"tokens" doc:"Number of tokens." example:"91"`
	Label   string `json:"label" doc:"The first characters of its text." example:"assistant: Bash"`
}
