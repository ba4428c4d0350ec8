package domain

import "time"

// SessionStatus is the status of a session (docs/concepts.md#terms).
type SessionStatus string

// created → running → completed, failed, interrupted or waiting_for_input; each of these
// returns to running with the next chat.
const (
	SessionCreated         SessionStatus = "created"
	SessionRunning         SessionStatus = "running"
	SessionCompleted       SessionStatus = "completed"
	SessionFailed          SessionStatus = "failed"
	SessionInterrupted     SessionStatus = "interrupted"
	SessionWaitingForInput SessionStatus = "waiting_for_input"
)

// WaitingReason is why a session makes no progress
// (docs/operators/stuck-runs.md#why-does-a-chat-make-no-progress).
type WaitingReason string

// The closed list of waiting reasons.
const (
	WaitingNone          WaitingReason = "none"
	WaitingModel         WaitingReason = "model"
	WaitingModelDown     WaitingReason = "model_unavailable"
	WaitingTool          WaitingReason = "tool"
	WaitingQuestion      WaitingReason = "question"
	WaitingPermission    WaitingReason = "permission"
	WaitingRateLimit     WaitingReason = "rate_limit"
	WaitingChild         WaitingReason = "child"
	WaitingSlot          WaitingReason = "slot"
	WaitingQueued        WaitingReason = "queued"
	WaitingWorkerMissing WaitingReason = "worker_missing"
	WaitingBudget        WaitingReason = "budget"
)

// Mode is how the agent works: in planning it only writes a plan; in executing it runs tools.
type Mode string

// The two modes (docs/modes.md).
const (
	ModePlanning  Mode = "planning"
	ModeExecuting Mode = "executing"
)

// Session is one agent session as its owner sees it: the summary of a list and the settings of
// the detail view (docs/rest.md#sessions).
type Session struct {
	ID              SessionID     `db:"id"`
	OwnerID         string        `db:"owner_id"`
	Intent          string        `db:"intent"`
	Status          SessionStatus `db:"status"`
	WaitingReason   WaitingReason `db:"waiting_reason"`
	SolutionID      *string       `db:"solution_id"`
	BizRoleID       *string       `db:"biz_role_id"`
	TemplateID      *string       `db:"template_id"`
	PrimarySkillID  *string       `db:"primary_skill_id"`
	Model           *string       `db:"model"`
	SoftwareFactory *int64        `db:"software_factory_id"`
	WorkspaceID     *string       `db:"workspace_id"`
	Mode            Mode          `db:"mode"`
	Shared          bool          `db:"shared"`
	Pinned          bool          `db:"is_pinned"`
	MemoryEnabled   bool          `db:"memory_enabled"`
	Persistent      bool          `db:"is_persistent"`
	Env             SessionEnv    `db:"env"`
	DisableTools    []string      `db:"disable_tools"`
	Setup           SessionSetup  `db:"setup"`
	SandboxUID      int           `db:"sandbox_uid"`
	ActiveBranchID  BranchID      `db:"active_branch_id"`
	ActiveChatID    *ChatID       `db:"active_chat_id"`
	InitTaskID      *string       `db:"init_task_id"` // the background task of its init script; nil: none
	QueueLength     int           `db:"queue_length"`
	CreatedAt       time.Time     `db:"created_at"`
	UpdatedAt       time.Time     `db:"updated_at"`
	CommandsSince   *time.Time    `db:"commands_since"` // start of the oldest tool call or command that runs; nil: none, or not read
	RestsSince      time.Time     `db:"rests_since"`    // end of the last one, or start of the newest turn
	Replay          *ReplayState  `db:"replay_state"`   // nil: not a replay session
	LastEnd         *LastEnd      `db:"last_end"`       // nil: no chat has ended since the last move in the history, or not read
	// NoToolServers reports that the database has no tool server for the session, so that
	// processes can skip the lookup; false: unknown.
	NoToolServers bool `db:"no_tool_servers"`
	// AssistsSolutions reports that its agent may edit documents of production solutions, which
	// must be looked up; false: it does not.
	AssistsSolutions bool `db:"assists_solutions"`
}

// SteeredByOthers reports whether the session works on the issues of a production workspace,
// whose members steer the agent and read its output.
func (s Session) SteeredByOthers() bool {
	return s.WorkspaceID != nil && s.Setup.Agent != nil && s.Setup.Agent.InstanceID != ""
}

// SessionViewer is a user who requests a session.
type SessionViewer struct {
	User      User
	SessionID SessionID
}

// ViewerRole is the role of a caller in a session (docs/rest.md#sessions).
type ViewerRole string

// The three roles that can read a session; only the owner can change it.
const (
	ViewerOwner  ViewerRole = "owner"
	ViewerAdmin  ViewerRole = "admin"
	ViewerViewer ViewerRole = "viewer"
)

// NewSession contains the fields that a client can set when it creates a session.
type NewSession struct {
	ID              SessionID    // empty: a new one
	Class           SessionClass // empty: chat
	ParentRun       string       // what it is made for (durable.Attributes); empty: a user
	Intent          string
	SolutionID      *string
	BizRoleID       *string
	TemplateID      *string
	PrimarySkillID  *string
	Model           *string
	SoftwareFactory *int64
	WorkspaceID     *string
	MemoryEnabled   bool
	Persistent      bool
	Mode            Mode // empty: executing
	Env             SessionEnv
	DisableTools    []string
	Setup           SessionSetup
	InitScript      string // runs once, before the first chat starts; empty: none
}

// SessionQuery selects a page of a user's sessions, pinned ones first, then the newest first;
// Search is literal and case-insensitive.
type SessionQuery struct {
	OwnerID          string
	TemplateIDPrefix string
	Search           string
	Limit            int
	Offset           int
}

// DeletedSession is a session that is deleted for all users and whose content is not removed
// yet.
type DeletedSession struct {
	SessionID SessionID
	OwnerID   string
}

// ReplayStatus is the state of the playback of a replay session.
type ReplayStatus string

// playing ⇄ paused; playing → finished; playing and paused → autonomous, and back to playing as
// long as no message was sent since.
const (
	ReplayPlaying    ReplayStatus = "playing"
	ReplayPaused     ReplayStatus = "paused"
	ReplayFinished   ReplayStatus = "finished"
	ReplayAutonomous ReplayStatus = "autonomous"
)

// ReplayState describes a replay session (docs/replay.md). Position and Total count played
// events.
type ReplayState struct {
	SourceSessionID SessionID     `json:"source_session_id" doc:"The session that is replayed." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Speed           int           `json:"speed" enum:"1,2,5" doc:"Factor of the recorded speed."`
	Status          *ReplayStatus `json:"status" enum:"playing,paused,finished,autonomous" doc:"Its status."`
	Position        int64         `json:"position" doc:"Number of events replayed so far." example:"0"`
	Total           int64         `json:"total" doc:"Number of events to replay." example:"144"`
	StartedAt       time.Time     `json:"started_at" doc:"Start time."`
	HandedOverAt    *time.Time    `json:"handed_over_at" doc:"Time of the handover; null: none."`
}

// Plays reports whether the playback is unfinished; false for a session that is not a replay.
func (r *ReplayState) Plays() bool {
	return r != nil && r.Status != nil && (*r.Status == ReplayPlaying || *r.Status == ReplayPaused)
}
