// Package tools holds the agent's own tools: what the model is told of each, how
// its arguments are checked, and what it does. A tool knows a session's
// workspace, sandbox and records through the small ports of ports.go; it must
// not know Temporal, the ledger of tool calls, transports or engines.
package tools

import (
	"context"
	"encoding/json"

	"everloop/domain"
)

// MaxResult bounds what one tool call gives to the model, in characters
// (decisions.md section 4). What is left out is kept in a file of the workspace,
// whose path the result names.
const MaxResult = 100_000

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

	// Acts says that a call may have changed something, so that it is carried
	// out at most once. Other tools are simply tried again.
	Acts bool
	// Planning says that the tool is offered in planning mode.
	Planning bool
	// Executing says that the tool is offered in executing mode.
	Executing bool
	// Asks says that a call is put to the user and not run: it is never offered
	// to headless chats, and Run is nil.
	Asks bool

	// Run carries a call out. A result tells the model what came of it, good or
	// bad. An error is for operators: the call could not be carried out for
	// reasons that are not the model's (a dependency is down, the context ended);
	// the result then holds what is known all the same, if anything.
	Run func(ctx context.Context, c *Call) (Result, error)

	// Check finds what the schema cannot say of the arguments; empty: nothing is
	// wrong. It may be nil.
	Check func(arguments json.RawMessage) (problem string)

	// Summary gives the part of the arguments that says most, for operators.
	Summary func(arguments json.RawMessage) string

	schema *schema
}

// Call is one call of a tool whose arguments were checked.
type Call struct {
	ID        string
	Session   SessionView
	ChatID    string
	EntryID   string
	Arguments json.RawMessage
	// Progress takes live output, in order, never from two goroutines at once;
	// nil: nobody looks.
	Progress func(stream, text string)
}

// SessionView is what tools may know of the session that they work for.
type SessionView struct {
	ID         string
	SandboxUID int
	// Root is the workspace's directory on this machine.
	Root string
	// Env is the session's and its bucket's environment: for commands only,
	// never for results, logs or summaries.
	Env map[string]string
}

// Result is what a call came to. Output is valid UTF-8 of at most MaxResult
// characters.
type Result struct {
	Output  string
	IsError bool
	Changed []domain.FileChange
}

// Kinds of file changes.
const (
	FileCreated  = "created"
	FileModified = "modified"
	FileDeleted  = "deleted"
)
