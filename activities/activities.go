// Package activities holds the side effects of Everloop's workflows: model
// calls, tool runs and the small steps between them. Each is safe to run again,
// and says how. It reaches engines through the ports declared here and knows
// neither transports nor workflows.
package activities

import (
	"context"
	"log/slog"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
)

// Activities carries what the activities work with.
type Activities struct {
	Chats       Chats
	Turns       Turns
	Ledger      Ledger
	Log         EventLog
	Stops       Stops
	Models      Models
	Images      Images
	Tools       *tools.Registry
	Agents      *tools.Agents
	Forks       Forks
	ForkLimits  domain.ForkLimits
	Workspaces  Workspaces
	Profiles    Profiles
	Environment Environment
	Captures    Captures // nil: files are not captured
	Metrics     Metrics
	Logger      *slog.Logger

	Compactions Compactions
	Tokens      Tokens
	Memories    Memories // nil: none are recalled

	host toolHost
}

// Chats keeps the chats of sessions: one transaction a step.
type Chats interface {
	BeginChat(ctx context.Context, in contract.BeginChatIn) (contract.BeginChatOut, error)
	ParkChat(ctx context.Context, in contract.ParkChatIn) (contract.ParkChatOut, error)
	CheckChat(ctx context.Context, in contract.CheckChatIn) (contract.ParkChatOut, error)
	FinishChat(ctx context.Context, in contract.FinishChatIn, restored map[string][]domain.Block) (contract.FinishChatOut, error)
	OpenTurnsOfChat(ctx context.Context, chatID string) ([]domain.OpenTurn, error)
}

// Turns keeps the turns of a conversation. Writes are fenced by the attempt that
// opening gave.
type Turns interface {
	OpenTurn(ctx context.Context, key domain.TurnKey, model string, atOnce int) (domain.OpenedTurn, domain.TurnState, error)
	FlushTurn(ctx context.Context, entryID string, attempt int, blocks []domain.Block, seq uint64) error
	ReleaseTurn(ctx context.Context, key domain.TurnKey, entryID string, attempt int, retry domain.Retry) error
	CloseTurn(ctx context.Context, turn domain.ClosingTurn) error
	FinishedCalls(ctx context.Context, entryID string) (open []domain.PlannedCall, asked int, err error)
	Transcript(ctx context.Context, q domain.TranscriptQuery) (domain.Transcript, error)
	// RememberRecall keeps which memories a chat was given.
	RememberRecall(ctx context.Context, chatID string, turn domain.OpenedTurn, recalled []domain.RecalledMemory) error
}

// Ledger keeps the tool calls, so that no effect happens twice.
type Ledger interface {
	ClaimCall(ctx context.Context, toolCallID string) (domain.LedgerCall, domain.LedgerState, error)
	RenewCall(ctx context.Context, toolCallID string, attempt int) error
	RecordCall(ctx context.Context, call domain.LedgerCall, done domain.FinishedCall) error
	CallStatus(ctx context.Context, toolCallID string) (domain.ToolCallStatus, error)
}

// Forks keeps the sub-agents of chats; atOnce of one chat work at once.
type Forks interface {
	PauseFork(ctx context.Context, in contract.PauseForkIn, atOnce int) (contract.PauseForkOut, error)
	ForkText(ctx context.Context, loopID string) (domain.ForkText, error)
	EndFork(ctx context.Context, end domain.ForkEnd, atOnce int, restored map[string][]domain.Block) (contract.EndForkOut, error)
}

// EventLog takes the pieces of a stream, which are not state, and gives them
// back when a worker died with them.
type EventLog interface {
	Publish(ctx context.Context, e domain.Event) (seq uint64, err error)
	Read(ctx context.Context, sessionID string, after, upTo uint64, fn func(domain.LoggedEvent) error) error
	Last(ctx context.Context, sessionID string) (uint64, error)
}

// Stops tells at once that a chat was stopped. The flag in the records is the
// truth: watch first, then look at it.
type Stops interface {
	WatchStop(chatID string) (stopped <-chan struct{}, cancel func())
	// WatchTaskStop is WatchStop for a background task.
	WatchTaskStop(taskID string) (stop <-chan struct{}, cancel func())
}

// Models is the model server.
type Models interface {
	Stream(ctx context.Context, p domain.Prompt, onDelta func(domain.Delta) error) (domain.Reply, error)
	Resolve(ctx context.Context, requested string) (domain.Model, error)
	Models(ctx context.Context) ([]domain.Model, error)
}

// Images gives the pictures of messages as data URLs.
type Images interface {
	DataURL(ctx context.Context, object string) (string, error)
}

// Workspaces says where a session's files are on this machine.
type Workspaces interface {
	Root(ctx context.Context, sessionID string, uid int) (string, error)
}

// Profiles says how the agent of a session is set up. It answers from memory.
type Profiles interface {
	Profile(session domain.Session) domain.Profile
}

// Environment gives the variables of a session's tools: its own, over those of its
// owner's buckets.
type Environment interface {
	ToolEnv(ctx context.Context, session domain.Session) (map[string]string, error)
}

// Metrics counts what was done.
type Metrics interface {
	ChatEnded(finishReason string)
	ModelCalled(outcome string, took time.Duration)
	ToolCalled(tool, status string, took time.Duration)
}

const restoreTimeout = 10 * time.Second
