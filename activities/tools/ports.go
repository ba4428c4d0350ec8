package tools

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"strings"
	"time"

	"everloop/domain"
)

// Workspaces opens the files of a session. Close releases what it holds.
type Workspaces interface {
	Open(ctx context.Context, s SessionView) (Files, error)
}

// Files reaches one session's workspace: regular files and directories only,
// by paths relative to its root, never through a link that leaves it. Refusals
// are domain errors: path_outside_workspace, file_not_found and the like.
type Files interface {
	io.Closer
	// Clean turns a path as a model gives it, relative or as commands see it, into
	// one relative to the root, which is "."; it refuses what leaves by its words.
	Clean(path string) (string, error)
	// Read opens a regular file.
	Read(path string) (io.ReadSeekCloser, FileInfo, error)
	// Stat describes a file or directory.
	Stat(path string) (FileInfo, error)
	// Write replaces or makes a file as a whole, with the directories it needs.
	// When ifMatch is not empty the file must still be that version, or, with
	// Absent, there must be none.
	Write(ctx context.Context, path string, content io.Reader, ifMatch string) (FileInfo, error)
	// Append opens a file for adding to its end, making it when it is missing.
	Append(ctx context.Context, path string) (io.WriteCloser, error)
	// Walk visits dir and everything below it in order, links not followed. A
	// directory for which visit returns fs.SkipDir is left out; fs.SkipAll ends
	// the walk.
	Walk(ctx context.Context, dir string, visit func(FileInfo) error) error
}

// Absent is the version of a file that does not exist.
const Absent = "absent"

// FileInfo describes a file of a workspace. The ETag changes whenever the
// content does.
type FileInfo struct {
	Path    string
	ETag    string
	Size    int64
	ModTime time.Time
	IsDir   bool
	Regular bool
}

// FileReads remembers which version of a file a session has read, so that a
// change to something unread is refused.
type FileReads interface {
	// Record notes that the version was read.
	Record(ctx context.Context, sessionID domain.SessionID, path, etag string) error
	// Change holds the path for one change at a time, over all workers: change is
	// given the version that was read, "" for none, and gives the version it
	// wrote, which counts as read; "" when it wrote nothing.
	Change(ctx context.Context, sessionID domain.SessionID, path string, change func(seen string) (wrote string, err error)) error
}

// Sandbox runs commands confined to a session.
type Sandbox interface {
	// Run starts the command and waits for its end and that of everything it
	// started. When ctx ends first, all of it is killed and the context's error
	// is returned.
	Run(ctx context.Context, command Command) (Exit, error)
}

// Command is one process to run in a session's sandbox, in its workspace.
type Command struct {
	Session SessionView
	Argv    []string
	// Env continues top of the clean base environment of the sandbox.
	Env map[string]string
	// Stdout and Stderr may be the same writer: then both come through one pipe,
	// in the order they were written.
	Stdout, Stderr io.Writer
	// Started is called once with the process's id on the host, when the sandbox
	// reports it.
	Started func(pid int)
}

// Environment leaves out what no environment can hold, so that one bad variable of
// a session does not keep all its commands from running.
func Environment(env map[string]string) map[string]string {
	kept := maps.Clone(env)
	maps.DeleteFunc(kept, func(name, value string) bool {
		return name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0)
	})

	return kept
}

// Exit says how a command ended.
type Exit struct {
	Code int // 128 plus the signal's number when a signal ended it
	// Killed says why the sandbox ended the command, as "out of memory"; empty
	// when it ended by itself.
	Killed string
	// Connections are what the command connected to, or was kept from. They are
	// given next to an error too.
	Connections []domain.Connection
}

// NetworkPolicies returns what a session may connect to at the moment.
type NetworkPolicies interface {
	NetworkPolicy(ctx context.Context, sessionID domain.SessionID) (domain.NetworkPolicy, error)
}

// WebPolicies decides about the pages that a session may fetch.
type WebPolicies interface {
	NetworkPolicies
	// AddressNamed reports whether the user wrote the web address in the session, or a
	// search of the session returned it, as a whole.
	AddressNamed(ctx context.Context, sessionID domain.SessionID, address string) (bool, error)
	// ToolDecision returns what the permission rules of the session say of a call.
	ToolDecision(ctx context.Context, sessionID domain.SessionID, tool string, arguments json.RawMessage) (domain.PermissionDecision, error)
}

// TaskList keeps the agent's own list of tasks (tool TaskCreate).
type TaskList interface {
	// AddSessionTask adds a task at the end; the same id again changes nothing.
	AddSessionTask(ctx context.Context, sessionID domain.SessionID, id string, task domain.SessionTaskChange) (domain.SessionTask, error)
	// ChangeSessionTask changes the fields that are given.
	ChangeSessionTask(ctx context.Context, sessionID domain.SessionID, id string, task domain.SessionTaskChange) (domain.SessionTask, error)
}

// Background starts commands and sub-agents that outlive the chat.
type Background interface {
	// StartShell makes the task durable and has it carried out. The same tool
	// call again gives the same task.
	StartShell(ctx context.Context, task NewShell) (domain.BackgroundTask, error)
	// StartAgent is StartShell for a sub-agent, which was reserved with its call.
	StartAgent(ctx context.Context, task NewAgentTask) (domain.BackgroundTask, error)
}

// NewAgentTask is a background sub-agent to start.
type NewAgentTask struct {
	SessionID  domain.SessionID
	ChatID     domain.ChatID
	ToolCallID string
	Title      string
}

// NewShell is a background command to start.
type NewShell struct {
	SessionID      domain.SessionID
	ChatID         domain.ChatID
	ToolCallID     string
	Title, Command string
}

// Deps is what the built-in tools work with.
type Deps struct {
	Workspaces Workspaces
	Sandbox    Sandbox
	Reads      FileReads
	Tasks      TaskList
	Background Background // nil: run_in_background is refused
	Web        Web        // nil: WebFetch is not offered
	Asker      Asker      // nil: the prompt of WebFetch is not applied
	Search     Searcher   // nil: WebSearch is not offered

	Network  domain.NetworkMode // of commands; empty: none
	Outbound domain.NetworkMode // of the tools that reach the web themselves; empty: none
	Policies WebPolicies        // with any network

	Limits Limits
}
