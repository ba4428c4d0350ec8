package domain

import "time"

// CheckpointKind says why a checkpoint was made.
type CheckpointKind string

// The kinds of checkpoints (shapes.md section 3). Those of a tool batch hold the
// files after a turn and are not listed.
const (
	CheckpointUserTurn   CheckpointKind = "user_turn"
	CheckpointToolBatch  CheckpointKind = "tool_batch"
	CheckpointCompaction CheckpointKind = "compaction"
	CheckpointManual     CheckpointKind = "manual"
	CheckpointPreRewind  CheckpointKind = "pre_rewind"
)

// Checkpoint is a point of the conversation that one can go back to.
type Checkpoint struct {
	ID       string          `json:"checkpoint_id"`
	TurnID   string          `json:"turn_id"` // user_turn: the turn that follows it; else the last one before
	ParentID *string         `json:"parent_checkpoint_id"`
	BranchID string          `json:"branch_id"`
	Sequence int64           `json:"sequence"` // of the turn that follows
	Step     int             `json:"step"`     // model calls of the main loop before it, on its branch
	Kind     CheckpointKind  `json:"kind" enum:"user_turn,tool_batch,compaction,manual,pre_rewind"`
	Label    string          `json:"label"`
	Created  time.Time       `json:"created_at"`
	Tokens   int64           `json:"tokens"`        // of the context before it, as the model server counted them
	Messages int64           `json:"message_count"` // turns before it
	Files    CheckpointFiles `json:"files"`
	Reverted bool            `json:"reverted"` // its turn is not on the active branch
	Current  bool            `json:"current"`  // the newest one that the session stands behind
}

// CheckpointFiles says what of the workspace a checkpoint holds. Changed, Added
// and Deleted compare with the checkpoint before. SnapshotID is null until the
// files are captured, and for good when they could not be.
type CheckpointFiles struct {
	SnapshotID *string `json:"snapshot_id"`
	Changed    int     `json:"changed"`
	Added      int     `json:"added"`
	Deleted    int     `json:"deleted"`
	Bytes      int64   `json:"bytes"`
	Complete   bool    `json:"complete"` // false while it is not captured, and when something wrote meanwhile
}

// Snapshot is a captured state of a workspace.
type Snapshot struct {
	ID       string
	Changed  int
	Added    int
	Deleted  int
	Bytes    int64
	Complete bool
}

// DueCaptures are the checkpoints of one session whose files are to be captured
// now, all from the same look at the workspace.
type DueCaptures struct {
	SessionID  string
	SandboxUID int
	IDs        []string
	Previous   string // the snapshot to compare with; empty: none
	Busy       bool   // something may be writing at the same time
	Late       bool   // tools have run since: what is captured is not quite what was
	Held       int    // due ones that another process captures
}

// Branch is one line of a session's conversation.
type Branch struct {
	ID           string    `json:"branch_id"`
	Name         *string   `json:"name"`
	BaseID       *string   `json:"base_branch_id"` // the branch that it left; null for the first
	HeadID       *string   `json:"head_id"`
	ForkedFromID *string   `json:"forked_from_id"`
	Created      time.Time `json:"created_at"`
	Reason       string    `json:"reason" enum:"root,rewind,whatif,fork"`
	Active       bool      `json:"active"`
}

// HistoryNode is one entry of the conversation tree.
type HistoryNode struct {
	ID             string     `json:"id"`
	ParentID       *string    `json:"parent_id"`
	Children       []string   `json:"children"`
	BranchID       string     `json:"branch_id"`
	Kind           string     `json:"kind" enum:"message,compaction,system"`
	Role           Role       `json:"role"`
	TurnID         string     `json:"turn_id"`
	LoopID         string     `json:"loop_id"`
	Sequence       int64      `json:"sequence"`
	Step           int        `json:"step"` // model calls of the main loop so far on its branch: what from_step counts
	Label          string     `json:"label"`
	Status         TurnStatus `json:"status"`
	Tokens         int64      `json:"tokens"`
	ToolNames      []string   `json:"tool_names"`
	CheckpointID   *string    `json:"checkpoint_id"`
	IsHead         bool       `json:"is_head"`
	OnActiveBranch bool       `json:"on_active_branch"`
	Deprecated     bool       `json:"deprecated"`
	Created        time.Time  `json:"created_at"`
}

// History is the whole conversation tree of a session.
type History struct {
	Nodes              []HistoryNode `json:"nodes"`
	Branches           []Branch      `json:"branches"`
	HeadID             *string       `json:"head_id"`
	ActiveBranchID     string        `json:"active_branch_id"`
	SystemPromptTokens int           `json:"system_prompt_tokens"`
	ToolsTokens        int           `json:"tools_tokens"`
	TokenizerModel     string        `json:"tokenizer_model"`
}

// HistoryOperationKind says what an operation does to a session's history.
type HistoryOperationKind string

// The operations that change the branch and the files of a session.
const (
	OperationRewind HistoryOperationKind = "rewind"
	OperationSwitch HistoryOperationKind = "switch_branch"
	OperationWhatif HistoryOperationKind = "whatif"
)

// HistoryOperation is a change of a session's branch that was claimed and is to
// be finished, whatever becomes of the process that began it.
type HistoryOperation struct {
	ID         string
	SessionID  string
	SandboxUID int
	Kind       HistoryOperationKind
	LeftID     string // the checkpoint of what the session stood at
	ChatID     string // of a what-if
}

// RestoredFiles is what going back did to the workspace.
type RestoredFiles struct {
	Restored int           `json:"restored"`
	Deleted  int           `json:"deleted"`
	Skipped  []SkippedFile `json:"skipped"`
}

// SkippedFile is a path that could not be brought back, and why.
type SkippedFile struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// MovedHistory is what a rewind, a change of branch or a what-if came to.
type MovedHistory struct {
	SessionID        string        `json:"session_id"`
	CheckpointID     *string       `json:"checkpoint_id"`
	BranchID         string        `json:"branch_id"`
	HeadTurnID       *string       `json:"head_turn_id"`
	RemovedTurnIDs   []string      `json:"removed_turn_ids"` // kept on the branch that was left
	PreviousBranchID string        `json:"previous_branch_id"`
	PreRewindID      string        `json:"pre_rewind_checkpoint_id"`
	Message          []ContentPart `json:"message"` // of the turn that a rewind went back before; null: none
	Files            RestoredFiles `json:"files"`
	Cancelled        Cancelled     `json:"cancelled"`
}

// Cancelled says what going back put an end to. Background tasks go on; those
// that the new branch knows nothing of are detached.
type Cancelled struct {
	RunID           *string `json:"run_id"`
	Questions       int     `json:"questions"`
	BackgroundTasks int     `json:"background_tasks"`
	Detached        int     `json:"detached_tasks"`
}

// CheckoutPosition says which moment of a checkpoint is looked at.
type CheckoutPosition string

// Before the checkpoint's turn, or at the end of the chat that the turn started.
const (
	CheckoutBefore  CheckoutPosition = "before"
	CheckoutTurnEnd CheckoutPosition = "turn_end"
)

// FileDifference is one file of a view or a comparison.
type FileDifference struct {
	Path   string `json:"path"`
	Change string `json:"change" enum:"created,modified,deleted,unchanged"`
	Size   int64  `json:"size"`
}

// Checkout is a look at an earlier state; nothing is changed by it.
type Checkout struct {
	CheckpointID   string           `json:"checkpoint_id"`
	Position       CheckoutPosition `json:"position" enum:"before,turn_end"`
	Turns          []Turn           `json:"turns"`
	Files          []FileDifference `json:"files"`
	FilesTruncated bool             `json:"files_truncated"` // unchanged files are left out, there are too many
	SnapshotID     *string          `json:"snapshot_id"`
	Tokens         int64            `json:"tokens"`
}

// CheckoutView is where a checkout looks: the entries before UpTo on a branch,
// and two snapshots: what was there, and what to compare it with.
type CheckoutView struct {
	BranchID string
	UpTo     int64
	Snapshot string
	Before   string
	Tokens   int64
}

// BranchSide is one side of a comparison: what it has that the other has not.
type BranchSide struct {
	BranchID   string  `json:"branch_id"`
	HeadTurnID *string `json:"head_turn_id"`
	Turns      int     `json:"turns"`
	Steps      int     `json:"steps"`
	Usage      Usage   `json:"usage"`
	DurationMS int64   `json:"duration_ms"`
	Snapshot   string  `json:"-"`
}

// TurnDifference is a turn that only one side has.
type TurnDifference struct {
	TurnID   string     `json:"turn_id"`
	Side     string     `json:"side" enum:"base,other"`
	BranchID string     `json:"branch_id"`
	Sequence int64      `json:"sequence"`
	Role     Role       `json:"role"`
	Status   TurnStatus `json:"status"`
	Label    string     `json:"label"`
}

// Comparison holds two branches of a session against each other.
type Comparison struct {
	SessionID    string           `json:"session_id"`
	ForkSequence int64            `json:"fork_sequence"` // below it both are the same
	Base         BranchSide       `json:"base"`
	Other        BranchSide       `json:"other"`
	Turns        []TurnDifference `json:"turns"`
	Files        []FileDifference `json:"files"` // from base to other
}

// HistoryRequest asks for a change of a session's branch.
type HistoryRequest struct {
	Kind         HistoryOperationKind
	SessionID    string
	CheckpointID string // of a rewind or a change of branch
	Send         *Send  // of a what-if
}

// ClaimedHistory is what became of such a request: an operation to carry out, or
// the answer when there is nothing to carry out.
type ClaimedHistory struct {
	Operation *HistoryOperation
	Done      *MovedHistory // the session stands there already
	Ack       SendAck       // of a what-if
}
