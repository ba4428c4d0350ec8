package history

import (
	"time"

	"everloop/domain"
)

// Checkpoint is a point of the conversation to return to.
type Checkpoint struct {
	ID       domain.CheckpointID   `json:"checkpoint_id" doc:"The checkpoint." example:"01a1ff63-2e79-7c38-bcdf-8e7219279cf6"`
	TurnID   domain.TurnID         `json:"turn_id" doc:"The turn." example:"01a1ff63-2e65-78fc-9f81-0bf414a0eeac"` // user_turn: the turn that follows it; else the last one before
	ParentID *domain.CheckpointID  `json:"parent_checkpoint_id" doc:"The previous checkpoint; null for the first." example:"01a1ff63-2e79-7c38-bcdf-8e7219279cf6"`
	BranchID domain.BranchID       `json:"branch_id" doc:"The branch of the history." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"`
	Sequence int64                 `json:"sequence" doc:"Its position in the branch, from 0." example:"3"`      // of the turn that follows
	Step     int                   `json:"step" doc:"Number of model calls of the chat before it." example:"2"` // model calls of the main loop before it, on its branch
	Kind     domain.CheckpointKind `json:"kind" enum:"user_turn,tool_batch,compaction,manual,pre_rewind" doc:"The type."`
	Label    string                `json:"label" doc:"The first characters of its text."`
	Created  time.Time             `json:"created_at" doc:"Creation time."`
	Tokens   int64                 `json:"tokens" doc:"Number of tokens." example:"2160"`               // of the context before it, as the model server counted them
	Messages int64                 `json:"message_count" doc:"Number of turns up to here." example:"3"` // turns before it
	Files    CheckpointFiles       `json:"files" doc:"What changed since the previous checkpoint."`
	Reverted bool                  `json:"reverted" doc:"Whether the session was rewound to before it."`       // its turn is not on the active branch
	Current  bool                  `json:"current" doc:"Whether this is the current position of the session."` // the newest one at or before the session's position
}

// CheckpointFiles describes the captured workspace of a checkpoint. Changed, Added and Deleted
// compare with the previous checkpoint. SnapshotID is null until the files are captured, and
// permanently when the capture failed.
type CheckpointFiles struct {
	SnapshotID *string `json:"snapshot_id" doc:"The snapshot of the files; null: none was taken."`
	Changed    int     `json:"changed" doc:"Modified files." example:"0"`
	Added      int     `json:"added" doc:"Added files." example:"1"`
	Deleted    int     `json:"deleted" doc:"Deleted files." example:"0"`
	Bytes      int64   `json:"bytes" doc:"Their total size in bytes." example:"8"`
	Complete   bool    `json:"complete" doc:"Whether all files were captured."` // false until it is captured, and when files were written during the capture
}

// Snapshot is a captured state of a workspace.
type Snapshot struct {
	ID       string
	Changed  int
	Added    int
	Deleted  int
	Bytes    int64
	Complete bool
	Stored   int64 // bytes that the snapshot added to the object store
}

// DueCaptures are the checkpoints of one session whose files must be captured now, all from the
// same state of the workspace.
type DueCaptures struct {
	SessionID  domain.SessionID
	SandboxUID int
	IDs        []string
	Previous   string // the snapshot to compare with; empty: none
	Busy       bool   // files may be written at the same time
	Late       bool   // tools have run since the checkpoint: the captured files may differ from its files
	Held       int    // due checkpoints that another process captures
}

// Branch is one line of a session's conversation.
type Branch struct {
	ID           domain.BranchID  `json:"branch_id" doc:"The branch of the history." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"`
	Name         *string          `json:"name" doc:"Its name."`
	BaseID       *domain.BranchID `json:"base_branch_id" doc:"Parent branch." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"` // the branch that it left; null for the first
	HeadID       *domain.TurnID   `json:"head_id" doc:"The newest node." example:"01a1ff63-397c-7f17-ba35-1608d8c2e331"`
	ForkedFromID *domain.TurnID   `json:"forked_from_id" doc:"The turn at which the branch was forked; null for the first branch." example:"01a1ff63-2f13-77e0-acac-9760ccfbac8e"`
	Created      time.Time        `json:"created_at" doc:"Creation time."`
	Reason       string           `json:"reason" enum:"root,rewind,whatif,fork" doc:"The reason."`
	Active       bool             `json:"active" doc:"Whether it is the branch that the session is on."`
}

// Node is one entry of the conversation tree.
type Node struct {
	ID             domain.TurnID        `json:"id" doc:"Its id." example:"01a1ff63-2e65-78fc-9f81-0bf414a0eeac"`
	ParentID       *domain.TurnID       `json:"parent_id" doc:"The parent node; null for the first." example:"01a1ff63-2e65-78fc-9f81-0bf414a0eeac"`
	Children       []domain.TurnID      `json:"children" doc:"Ids of the child nodes." example:"[\"01a1ff63-2ea4-77a8-83e8-065bab5bbabc\"]"`
	BranchID       domain.BranchID      `json:"branch_id" doc:"The branch of the history." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"`
	Kind           string               `json:"kind" enum:"message,compaction,system" doc:"The type."`
	Role           domain.Role          `json:"role" doc:"The role: user, assistant, system or tool." example:"user"`
	TurnID         domain.TurnID        `json:"turn_id" doc:"The turn." example:"01a1ff63-2e65-78fc-9f81-0bf414a0eeac"`
	LoopID         string               `json:"loop_id" doc:"The agent loop: root, or the id of a sub-agent." example:"root"`
	Sequence       int64                `json:"sequence" doc:"Its position in the branch, from 0." example:"1"`
	Step           int                  `json:"step" doc:"Number of model calls of the chat before it." example:"1"` // model calls of the main loop so far on its branch: what from_step counts
	Label          string               `json:"label" doc:"The first characters of its text."`
	Status         domain.TurnStatus    `json:"status" doc:"Its status." example:"completed"`
	Tokens         int64                `json:"tokens" doc:"Number of tokens." example:"49"`
	ToolNames      []string             `json:"tool_names" doc:"Names of the tools that it called." example:"[\"Bash\"]"`
	CheckpointID   *domain.CheckpointID `json:"checkpoint_id" doc:"The checkpoint." example:"01a1ff63-2e79-7c38-bcdf-8e7219279cf6"`
	IsHead         bool                 `json:"is_head" doc:"Whether it is the newest of its branch."`
	OnActiveBranch bool                 `json:"on_active_branch" doc:"Whether it is on the branch that the session is on."`
	Deprecated     bool                 `json:"deprecated" doc:"Excluded from the model's context by a what-if."`
	Created        time.Time            `json:"created_at" doc:"Creation time."`
}

// History is the whole conversation tree of a session.
type History struct {
	Nodes              []Node          `json:"nodes" doc:"The entries of all branches."`
	Branches           []Branch        `json:"branches" doc:"The branches of the history."`
	HeadID             *domain.TurnID  `json:"head_id" doc:"The newest node." example:"01a1ff63-397c-7f17-ba35-1608d8c2e331"`
	ActiveBranchID     domain.BranchID `json:"active_branch_id" doc:"The branch that the session is on." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"`
	SystemPromptTokens int             `json:"system_prompt_tokens" doc:"Tokens of the system prompt." example:"72"`
	ToolsTokens        int             `json:"tools_tokens" doc:"Tokens of the descriptions of tools." example:"2029"`
	TokenizerModel     string          `json:"tokenizer_model" doc:"The model whose tokens are counted." example:"everloop-demo"`
}

// Operation is a claimed change of a session's branch. A separate workflow finishes it.
type Operation struct {
	ID         string
	SessionID  domain.SessionID
	OwnerID    string
	SandboxUID int
	Kind       domain.HistoryOperationKind
	State      State
	LeftID     domain.CheckpointID // the checkpoint of the session's previous position
	ChatID     domain.ChatID       // of a what-if
	Attempt    int                 // fencing token: only the latest attempt can write
}

// State is the progress of an operation.
type State string

// The states of an operation.
const (
	StateRunning State = "running"
	StateDone    State = "done"
	StateFailed  State = "failed"
)

// RestoredFiles is the effect of going back on the workspace.
type RestoredFiles struct {
	Restored int           `json:"restored" doc:"Files that were written." example:"0"`
	Deleted  int           `json:"deleted" doc:"Files that were deleted." example:"1"`
	Skipped  []SkippedFile `json:"skipped" doc:"Files that were not changed, with the reason."`
}

// SkippedFile is a path that could not be restored, and why.
type SkippedFile struct {
	Path   string `json:"path" doc:"Relative to the workspace."`
	Reason string `json:"reason" doc:"The reason."`
}

// Moved is the result of a rewind, a change of branch or a what-if.
type Moved struct {
	SessionID        domain.SessionID     `json:"session_id"`
	CheckpointID     *domain.CheckpointID `json:"checkpoint_id"`
	BranchID         domain.BranchID      `json:"branch_id"`
	HeadTurnID       *domain.TurnID       `json:"head_turn_id"`
	RemovedTurnIDs   []domain.TurnID      `json:"removed_turn_ids"` // still part of the previous branch
	PreviousBranchID domain.BranchID      `json:"previous_branch_id"`
	PreRewindID      domain.CheckpointID  `json:"pre_rewind_checkpoint_id"`
	Message          []domain.ContentPart `json:"message"` // of the turn that a rewind went back before; null: none
	Files            RestoredFiles        `json:"files"`
	Cancelled        Cancelled            `json:"cancelled"`
}

// Cancelled lists the work that going back ended. Background tasks continue; tasks that the new
// branch does not contain are detached.
type Cancelled struct {
	RunID           *string `json:"run_id" doc:"The run of the workflow engine."`
	Questions       int     `json:"questions" doc:"Questions that were cancelled." example:"0"`
	BackgroundTasks int     `json:"background_tasks" doc:"Background tasks that were stopped." example:"0"`
	Detached        int     `json:"detached_tasks" doc:"Background tasks that continue although their branch was left." example:"1"`
}

// CheckoutPosition is the moment of a checkpoint to look at.
type CheckoutPosition string

// Before the checkpoint's turn, or at the end of the chat that the turn started.
const (
	CheckoutBefore  CheckoutPosition = "before"
	CheckoutTurnEnd CheckoutPosition = "turn_end"
)

// FileDifference is one file of a view or a comparison.
type FileDifference struct {
	Path   string `json:"path" doc:"Relative to the workspace." example:"notes.md"`
	Change string `json:"change" enum:"created,modified,deleted,unchanged" doc:"The kind of change."`
	Size   int64  `json:"size" doc:"Size in bytes." example:"8"`
}

// FileComparison is one file that differs between two moments of a workspace.
type FileComparison struct {
	Path       string `json:"path" doc:"Relative to the workspace." example:"notes.md"`
	Change     string `json:"change" enum:"created,modified,deleted" doc:"The kind of change."`
	Type       string `json:"type" enum:"file,link" doc:"The type; of a deleted one, the type that it had."`
	SizeBefore *int64 `json:"size_before" doc:"Size in bytes at the checkpoint, of a link 0; null: there was none." example:"8"`
	SizeAfter  *int64 `json:"size_after" doc:"Size in bytes at the later moment, of a link 0; null: there is none." example:"12"`
}

// CaptureBase is the state that captures of checkpoints follow.
type CaptureBase struct {
	Snapshot string   // the last one of the session; empty: there is none
	Calls    []string // arguments of the calls of Write and Edit in the captured turns
}

// Checkout is a read-only view of an earlier state.
type Checkout struct {
	CheckpointID   domain.CheckpointID `json:"checkpoint_id" doc:"The checkpoint." example:"01a1ff63-2f62-7310-b604-777ea9c14e81"`
	Position       CheckoutPosition    `json:"position" enum:"before,turn_end" doc:"before: before the turn; end: at its end."`
	Turns          []domain.Turn       `json:"turns" doc:"The turns up to the checkpoint."`
	Files          []FileDifference    `json:"files" doc:"Files that differ from the current ones."`
	FilesTruncated bool                `json:"files_truncated" doc:"Whether the list of files is truncated."` // unchanged files are omitted because there are too many
	SnapshotID     *string             `json:"snapshot_id" doc:"The snapshot of the files; null: none was taken."`
	Tokens         int64               `json:"tokens" doc:"Number of tokens." example:"2160"`
}

// CheckoutView is the target of a checkout: the entries before UpTo on a branch, and two
// snapshots: the files at that time, and the files to compare them with.
type CheckoutView struct {
	BranchID domain.BranchID
	UpTo     int64
	Snapshot string
	Before   string
	Tokens   int64
}

// BranchSide is one side of a comparison: the items that only this branch has.
type BranchSide struct {
	BranchID   domain.BranchID `json:"branch_id" doc:"The branch of the history." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"`
	HeadTurnID *domain.TurnID  `json:"head_turn_id" doc:"The newest turn; null: there is none." example:"01a1ff63-397c-7f17-ba35-1608d8c2e331"`
	Turns      int             `json:"turns" doc:"Number of turns since the fork." example:"9"`
	Steps      int             `json:"steps" doc:"Number of model calls." example:"6"`
	Usage      domain.Usage    `json:"usage" doc:"Token usage." example:"{\"input_tokens\": 14151, \"output_tokens\": 125}"`
	DurationMS int64           `json:"duration_ms" doc:"Duration in milliseconds." example:"2295"`
	Snapshot   string          `json:"-"`
}

// TurnDifference is a turn that only one side has.
type TurnDifference struct {
	TurnID   domain.TurnID     `json:"turn_id" doc:"The turn." example:"01a1ff63-2f52-709e-8aab-1f09e1c21364"`
	Side     string            `json:"side" enum:"base,other" doc:"The branch that contains it: base or other."`
	BranchID domain.BranchID   `json:"branch_id" doc:"The branch of the history." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"`
	Sequence int64             `json:"sequence" doc:"Its position in the branch, from 0." example:"3"`
	Role     domain.Role       `json:"role" doc:"The role: user, assistant, system or tool." example:"user"`
	Status   domain.TurnStatus `json:"status" doc:"Its status." example:"completed"`
	Label    string            `json:"label" doc:"The first characters of its text." example:"And now?"`
}

// Comparison compares two branches of a session.
type Comparison struct {
	SessionID    domain.SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	ForkSequence int64            `json:"fork_sequence" doc:"The last sequence number that both branches share." example:"3"` // below it both are the same
	Base         BranchSide       `json:"base" doc:"The first branch."`
	Other        BranchSide       `json:"other" doc:"The second branch."`
	Turns        []TurnDifference `json:"turns" doc:"Turns that differ."`
	Files        []FileDifference `json:"files" doc:"Files that differ."` // from base to other
}

// Request requests a change of a session's branch.
type Request struct {
	Kind         domain.HistoryOperationKind
	SessionID    domain.SessionID
	CheckpointID domain.CheckpointID // of a rewind or a change of branch
	Send         *domain.Send        // of a what-if
}

// Claimed is the result of such a request: an operation to execute, or the answer when there is
// none to execute.
type Claimed struct {
	Operation *Operation
	Done      *Moved         // the session is at the target already
	Ack       domain.SendAck // of a what-if
}
