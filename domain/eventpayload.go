package domain

import (
	"bytes"
	"encoding/json"
	"time"
)

// Payloads of the events that the service sends, first or in a replay
// (docs/events.md#server-events). EventEnvelope is added where an event leaves the service.
// docs/events.json is generated from these declarations.

// EventEnvelope contains the fields of every event of the log.
type EventEnvelope struct {
	SessionID SessionID `json:"session_id" doc:"The session."`
	Seq       uint64    `json:"seq" doc:"Grows within the session, not dense; below 2^53."`
	PrevSeq   uint64    `json:"prev_seq" doc:"seq of the session's event before this one; 0 for the first that is kept."`
	TS        string    `json:"ts" format:"date-time" doc:"When it happened, ISO 8601 in UTC."`
	ChatID    ChatID    `json:"chat_id,omitempty" doc:"The chat; left out where no chat is meant."`
}

// ChatStarted is the payload of chat:start.
type ChatStarted struct {
	Mode     Mode    `json:"mode" enum:"planning,executing" doc:"How the agent works."`
	Headless bool    `json:"headless" doc:"One result in chat:end, and no questions."`
	Trigger  Trigger `json:"trigger" enum:"user,answer,schedule,dag,issue,whatif,replay,api" doc:"What started it: a user over Socket.IO, api: over REST, an answer, a scheduled task, a node of a DAG run, an issue run, a what-if or a replay."`
	Resumed  bool    `json:"resumed" doc:"The chat was started before and continues after its run was lost."`
}

// ChatEnded is the payload of chat:end.
type ChatEnded struct {
	Status       string       `json:"status" enum:"completed,interrupted,failed" doc:"How it ended."`
	FinishReason FinishReason `json:"finish_reason" enum:"completed,awaiting_answer,interrupted,failed,max_steps,schema_mismatch,budget_exhausted,stuck_detected,context_overflow,output_limit,content_filtered,empty_answer" doc:"Why it ended."`
	Usage        Usage        `json:"usage" doc:"Tokens of the whole chat."`
	Steps        int          `json:"steps" doc:"Model calls of the main agent."`
	DurationMS   int64        `json:"duration_ms" doc:"Milliseconds since this chat:start."`
	Result       *ChatResult  `json:"result,omitempty" doc:"Of a headless chat that completed."`
	Error        *ChatError   `json:"error,omitempty" doc:"Why it failed."`
}

// LastEnd is the payload of the last chat:end of a session, and the chat's id. It is nil
// before the first, and after a move in the history until the next.
type LastEnd struct {
	ChatID ChatID `json:"chat_id" doc:"The chat that ended."`
	ChatEnded
}

// UnmarshalJSON preserves the numbers of a result as they were written.
func (e *LastEnd) UnmarshalJSON(data []byte) error {
	type fields LastEnd

	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()

	return decoder.Decode((*fields)(e))
}

// ChatResult is the result of a headless chat.
type ChatResult struct {
	Output any             `json:"output" doc:"Text, or a value that follows the schema."`
	Schema json.RawMessage `json:"schema,omitempty" doc:"The output_schema of the message."`
}

// ChatError is the error of a failed chat.
type ChatError struct {
	Code      string `json:"code" doc:"Stable; docs/errors.md lists the codes."`
	Message   string `json:"message" doc:"The message in plain text."`
	Retryable bool   `json:"retryable" doc:"The same message may succeed later."`
}

// TurnStarted is the payload of turn:start.
type TurnStarted struct {
	TurnID               TurnID     `json:"turn_id" doc:"The turn, and its id in the messages list."`
	Sequence             int64      `json:"sequence" minimum:"0" doc:"Its place in the branch, dense from 0."`
	Role                 Role       `json:"role" enum:"user,assistant,system" doc:"Who speaks."`
	Status               TurnStatus `json:"status" enum:"streaming,completed" doc:"streaming for assistant turns; user and system turns are complete."`
	LoopID               string     `json:"loop_id" doc:"root, or the id of the call whose sub-agent speaks."`
	Kind                 string     `json:"kind" enum:"message" doc:"The kind of the entry."`
	Model                string     `json:"model" doc:"The model that answers; empty for user and system turns."`
	StartedAt            time.Time  `json:"started_at,omitzero" required:"true" doc:"Start time."` // zero in a script: it is set when it is played
	ParentForkToolCallID *string    `json:"parent_fork_tool_call_id" doc:"The call that a sub-agent works for; null for the main agent."`
	Blocks               []Block    `json:"blocks" doc:"The content of user and system turns."`
}

// TurnEnded is the payload of turn:end.
type TurnEnded struct {
	TurnID        TurnID     `json:"turn_id" doc:"The turn."`
	Status        TurnStatus `json:"status" enum:"completed,paused,failed,interrupted" doc:"paused: it asked a question, and ends once more when that is resolved."`
	Usage         Usage      `json:"usage" doc:"Tokens, as the model server counted."`
	DurationMS    int64      `json:"duration_ms" doc:"Duration in milliseconds."`
	FailureReason string     `json:"failure_reason,omitempty" doc:"Why it failed."`
}

// AddContentPatch is the payload of a turn:patch of type add_content; Offset
// counts the UTF-16 units of the block sent before.
type AddContentPatch struct {
	TurnID    TurnID    `json:"turn_id" doc:"The turn."`
	PatchType string    `json:"patch_type" enum:"add_content" doc:"The type of the patch."`
	TextDelta string    `json:"text_delta" doc:"Text to append."`
	BlockType BlockType `json:"block_type" enum:"text,thinking" doc:"The type of the block."`
	Offset    int       `json:"offset" minimum:"0" doc:"UTF-16 code units of this block sent before; 0 begins a new block."`

	Transcript bool `json:"transcript,omitempty" doc:"What was said in a recording of a user turn; it comes behind the end of the turn."`
}

// AddToolCallPatch is the payload of a turn:patch of type add_tool_call.
type AddToolCallPatch struct {
	TurnID    TurnID          `json:"turn_id" doc:"The turn."`
	PatchType string          `json:"patch_type" enum:"add_tool_call" doc:"The type of the patch."`
	ToolCall  PatchedToolCall `json:"tool_call" doc:"The call that the model asks for."`
}

// PatchedToolCall is a tool call as it is first reported.
type PatchedToolCall struct {
	ID          string         `json:"id" doc:"Its id."`
	ToolName    string         `json:"tool_name" doc:"The tool."`
	DisplayName string         `json:"display_name" doc:"The display name."`
	Arguments   string         `json:"arguments" doc:"JSON text as the model wrote it."`
	Status      ToolCallStatus `json:"status" enum:"pending,awaiting_answer" doc:"awaiting_answer: it is a question."`

	PendingQuestionRef *PendingQuestionRef `json:"pending_question_ref,omitempty" doc:"Its question."`
}

// ToolResultPatch is the payload of a turn:patch of type tool_result.
type ToolResultPatch struct {
	TurnID     TurnID         `json:"turn_id" doc:"The turn that asked."`
	PatchType  string         `json:"patch_type" enum:"tool_result" doc:"The type of the patch."`
	ToolCallID string         `json:"tool_call_id" doc:"The call."`
	Result     string         `json:"result" doc:"Its result."`
	Status     ToolCallStatus `json:"status" enum:"done,error,cancelled" doc:"How it ended."`
	DurationMS int64          `json:"duration_ms" doc:"Duration in milliseconds."`

	Connections []Connection `json:"connections,omitempty" doc:"What a command connected to, or was kept from."`
	Images      []CallImage  `json:"images,omitempty" doc:"The images of the result, in order; left out: none."`
}

// ToolProgressPatch is the payload of a turn:patch of type tool_progress.
type ToolProgressPatch struct {
	TurnID     TurnID `json:"turn_id" doc:"The turn that asked."`
	PatchType  string `json:"patch_type" enum:"tool_progress" doc:"The type of the patch."`
	ToolCallID string `json:"tool_call_id" doc:"The call."`
	TextDelta  string `json:"text_delta" doc:"Output to append."`
	Stream     string `json:"stream" enum:"stdout,progress" doc:"stdout: of a command, both of its streams in order; progress: of a tool server."`
}

// RetryPatch is the payload of a turn:patch of type retry.
type RetryPatch struct {
	TurnID        TurnID    `json:"turn_id" doc:"The turn."`
	PatchType     string    `json:"patch_type" enum:"retry" doc:"The type of the patch."`
	Attempt       int       `json:"attempt" minimum:"0" doc:"Faults since a model call last succeeded."`
	Reason        string    `json:"reason" doc:"Why the model call failed."`
	NextAttemptAt time.Time `json:"next_attempt_at" doc:"When it is made again."`
}

// SessionUpdated is the payload of session:updated.
type SessionUpdated struct {
	Status        SessionStatus `json:"status" enum:"created,running,completed,failed,interrupted,waiting_for_input" doc:"Status of the session."`
	WaitingReason WaitingReason `json:"waiting_reason" enum:"none,model,model_unavailable,tool,question,permission,rate_limit,child,slot,queued,worker_missing,budget" doc:"Why the session makes no progress."`
	Intent        string        `json:"intent" doc:"The intent of the session."`
	Model         *string       `json:"model" doc:"The model of the session; null: the default."`
	QueueLength   int           `json:"queue_length" minimum:"0" doc:"Messages that wait for their chat."`

	History *HistoryMoved `json:"history,omitempty" doc:"The active branch has changed."`
}

// HistoryMoved reports, with session:updated, that the active branch has changed: the messages,
// checkpoints and files that clients cached are outdated.
type HistoryMoved struct {
	Reason           HistoryOperationKind `json:"reason" enum:"rewind,switch_branch,whatif" doc:"The operation."`
	BranchID         BranchID             `json:"branch_id" doc:"The active branch."`
	PreviousBranchID BranchID             `json:"previous_branch_id" doc:"The branch that was active before."`
	HeadTurnID       *TurnID              `json:"head_turn_id" doc:"The last turn of the branch; null: it has none."`
	CheckpointID     *CheckpointID        `json:"checkpoint_id" doc:"The checkpoint that was returned to; null: none."`
}

// SessionCompacted is the payload of session:compacted.
type SessionCompacted struct {
	Turn Turn `json:"turn" doc:"The turn of kind compaction that stands for the archived part of the history."`
}

// SkippedCompaction is the payload of session:compaction_skipped.
type SkippedCompaction struct {
	CompactionID string `json:"compaction_id" doc:"The compaction, as the request for it named it."`
	Reason       string `json:"reason" doc:"Why nothing was summarised."`
}

// QuestionResolved is the payload of question:resolved.
type QuestionResolved struct {
	QuestionID string `json:"question_id" doc:"The question."`
	ToolCallID string `json:"tool_call_id" doc:"The call that asked."`
	Resolution string `json:"resolution" enum:"answered,cancelled" doc:"How it was resolved."`
	By         string `json:"by" doc:"The id of the user who answered; default_policy when its time was over; message, stop or the finish reason of the chat for what cancelled it."`
}

// TaskUpdated is the payload of background_task:updated: the task without the session's id,
// which is in the envelope.
type TaskUpdated struct {
	BackgroundTask
	SessionID SessionID `json:"session_id,omitempty" doc:"The session."`
}

// CheckpointCreated is the payload of checkpoint:created.
type CheckpointCreated struct {
	ID       CheckpointID   `json:"checkpoint_id" doc:"For rewind, checkout and switch-branch."`
	TurnID   TurnID         `json:"turn_id" doc:"The turn that it was made before."`
	BranchID BranchID       `json:"branch_id" doc:"The branch of the turn."`
	Sequence int64          `json:"sequence" doc:"The place of the turn in its branch."`
	Kind     CheckpointKind `json:"kind" enum:"user_turn,tool_batch,compaction,manual,pre_rewind" doc:"The kind."`
	Label    string         `json:"label" doc:"The start of the message."`
}

// SessionResync is the payload of session:resync, which is not in the log.
type SessionResync struct {
	SessionID SessionID `json:"session_id" doc:"The session."`
	Seq       uint64    `json:"seq" doc:"The after_seq to subscribe with again."`
	TS        string    `json:"ts" format:"date-time" doc:"When it happened, ISO 8601 in UTC."`
}

// SessionError is the payload of session:error, which is not in the log.
type SessionError struct {
	SessionID SessionID `json:"session_id,omitempty" doc:"The session; left out where the client named none."`
	Event     string    `json:"event" doc:"The client event that failed; session:subscribe when a subscription ended."`
	Error     Failure   `json:"error" doc:"What went wrong."`
}
