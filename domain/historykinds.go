package domain

// CheckpointKind is why a checkpoint was created.
type CheckpointKind string

// The kinds of checkpoints (docs/history.md#checkpoints). Checkpoints of a tool batch contain
// the files after a turn and are not listed.
const (
	CheckpointUserTurn   CheckpointKind = "user_turn"
	CheckpointToolBatch  CheckpointKind = "tool_batch"
	CheckpointCompaction CheckpointKind = "compaction"
	CheckpointManual     CheckpointKind = "manual"
	CheckpointPreRewind  CheckpointKind = "pre_rewind"
)

// HistoryOperationKind is how an operation changes a session's history.
type HistoryOperationKind string

// The operations that change the branch and the files of a session.
const (
	OperationRewind HistoryOperationKind = "rewind"
	OperationSwitch HistoryOperationKind = "switch_branch"
	OperationWhatif HistoryOperationKind = "whatif"
)
