// Package tools holds what a tool is made of: its name, schema and modes, how its
// arguments are checked, how its result is bounded, and the registry that offers and
// runs tools. The packages below it hold the service's own tools, with what the model
// reads about each; package builtin lists them. A tool knows a session's workspace,
// sandbox and records through the small ports of ports.go; it must not know Temporal,
// the ledger of tool calls, transports or engines.
package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"everloop/domain"
)

// Time limits of one call. Most tools end earlier by limits of their own.
const (
	DefaultTimeLimit = 15 * time.Minute
	MaxTimeLimit     = 65 * time.Minute
)

// Directories of the workspace that belong to the service: saved outputs and
// the logs of background tasks. Glob and Grep leave them out.
const (
	ServiceDir = ".everloop"
	OutputDir  = ServiceDir + "/output"
	TaskLogDir = ServiceDir + "/tasks"
)

// Tool is one thing that the model may ask for.
type Tool struct {
	Name        string
	DisplayName string
	Spec        domain.ToolSpec

	// Acts reports that a call may have changed something, so that it is carried
	// out at most once. Other tools are simply tried again.
	Acts bool
	// Planning reports that the tool is offered in planning mode.
	Planning bool
	// Executing reports that the tool is offered in executing mode.
	Executing bool
	// Asks reports that a call is put to the user and not run: it is never offered
	// to headless chats, and Run is nil.
	Asks bool

	// Run carries a call out. The result says what came of it, good or
	// bad. An error is for operators: the call could not be carried out for
	// reasons that are not the model's (a dependency is down, the context ended);
	// the result then holds what is known all the same, if anything.
	Run func(ctx context.Context, c *Call) (Result, error)

	// Access returns the domains that the user must allow before a call is carried out;
	// nil: none. It may be nil. Run checks again.
	Access func(ctx context.Context, s domain.SessionID, arguments json.RawMessage) *Access

	// Withhold says why the tool is not offered to a loop; empty: it is. It may be nil.
	Withhold func(s Scope) string

	// TimeLimit bounds one call, its retries included; 0: DefaultTimeLimit. No call
	// takes longer than MaxTimeLimit.
	TimeLimit time.Duration

	// Check finds what the schema cannot say of the arguments; empty: nothing is
	// wrong. It may be nil.
	Check func(arguments json.RawMessage) (problem string)

	// Summary gives the part of the arguments that says most, for the user.
	Summary func(arguments json.RawMessage) string
	// RunSummary is what operators may read of the arguments in the durable engine:
	// the description, or else the command. Nil: nothing.
	RunSummary func(arguments json.RawMessage) string

	schema *schema
}

// Limit returns the time that one call may take.
func (t Tool) Limit() time.Duration {
	return min(cmp.Or(t.TimeLimit, DefaultTimeLimit), MaxTimeLimit)
}

// Access is a question whether a session may connect to domains.
type Access struct {
	Rules []domain.NetworkRule // that a yes adds
	About string               // what they are needed for
}

// Call is one call of a tool whose arguments were checked.
type Call struct {
	ID        string
	Session   SessionView
	ChatID    domain.ChatID
	EntryID   domain.TurnID
	Arguments json.RawMessage
	// Progress takes live output, in order, never from two goroutines at once;
	// nil: progress is not shown.
	Progress func(stream, text string)
	// MaskEnv replaces the values of the session's environment in the result: others read it.
	MaskEnv bool
}

// SessionView is what tools may know of the session that they work for.
type SessionView struct {
	ID         domain.SessionID
	OwnerID    string // of commands: the user whose slots they take
	SandboxUID int
	// Root is the workspace's directory on this machine.
	Root string
	// Env is the session's and its bucket's environment: for commands only,
	// never for results, logs or summaries.
	Env map[string]string
}

// Result is what a call came to. Output is valid UTF-8 of at most Limits.Result
// characters. What is left out is kept in a file of the workspace, whose path the
// result names.
type Result struct {
	Output  string
	IsError bool
	Changed []domain.FileChange

	Connections []domain.Connection // of the command that the call ran
	Images      []Image             // at most domain.MaxCallImages
}

// Kinds of file changes.
const (
	FileCreated  = "created"
	FileModified = "modified"
	FileDeleted  = "deleted"
)
