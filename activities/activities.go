// Package activities holds the side effects of chats: model calls, tool runs, compactions and
// the small steps between them. Each is safe to run again, and its comment says how. It
// reaches engines through the ports declared here, and knows neither transports nor
// workflows, nor what runs beside chats (activities/background).
package activities

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"everloop/activities/contract"
	"everloop/activities/prompt"
	"everloop/activities/stream"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/domain/speech"
	"everloop/infra/model"
	"everloop/infra/tokens"
	"everloop/internal/durable"
)

// Activities holds the dependencies of the activities.
type Activities struct {
	Chats  Chats
	Turns  Turns
	Ledger Ledger
	Log    EventLog
	Stops  Stops
	Models *model.Client
	Images prompt.Images
	// ResultImages keeps the images of tool results.
	ResultImages ResultImages
	Tools        *tools.Registry
	Agents       *agents.Agents
	Forks        Forks
	ForkLimits   domain.ForkLimits
	Workspaces   Workspaces
	Profiles     Profiles
	ModelRetry   modelretry.Policy
	// ParallelTools is how many tool calls of one turn run at once; 0:
	// contract.DefaultParallelTools.
	ParallelTools int
	Environment   Environment
	// SummaryNames leaves the names of tools alone in what operators read of calls in
	// the durable engine.
	SummaryNames bool
	Captures     Captures // nil: files are not captured
	Metrics      Metrics
	Tracer       trace.Tracer // of tools; nil: they are not traced
	Logger       *slog.Logger

	// DrainTime is how long model calls may continue once the worker is being stopped.
	DrainTime time.Duration
	// NoFastPaths turns off what fastpath.go does. Tests run both ways.
	NoFastPaths bool

	// Failovers counts those of the database that this process has seen; nil: none.
	Failovers func() int

	Sizes      ContextSizes
	Tokens     *tokens.Counter
	Memories   Memories // nil: none are recalled
	Speech     Speech   // nil: recordings are not transcribed
	Recordings Recordings

	host        toolHost
	transcripts transcripts
	shared      sharedWork
	opened      durable.Nonces[domain.TurnKey]
}

// Chats stores the chats of sessions: one transaction a step.
type Chats interface {
	BeginChat(ctx context.Context, in contract.BeginChatIn) (contract.BeginChatOut, error)
	ParkChat(ctx context.Context, in contract.ParkChatIn) (contract.ParkChatOut, error)
	CheckChat(ctx context.Context, in contract.CheckChatIn) (contract.ParkChatOut, error)
	FinishChat(ctx context.Context, in contract.FinishChatIn, restored map[domain.TurnID][]domain.Block) (contract.FinishChatOut, error)
	OpenTurnsOfChat(ctx context.Context, chatID domain.ChatID) ([]domain.OpenTurn, error)
}

// Turns stores the turns of a conversation. Writes are fenced by the attempt that
// opening returned.
type Turns interface {
	stream.Turns

	// OpenTurnIf opens the turn of a model call. One that is not there yet is refused
	// unless admit lets it be opened; admit must not wait, nil admits all.
	OpenTurnIf(
		ctx context.Context, key domain.TurnKey, model string, maxConcurrent int, opener string, admit func(domain.NextTurn) bool,
	) (domain.OpenedTurn, domain.TurnState, error)
	// HoldTurn is ReleaseTurn without a fault: the same call is made again.
	HoldTurn(ctx context.Context, key domain.TurnKey, entryID domain.TurnID, attempt int) error
	ReleaseTurn(ctx context.Context, key domain.TurnKey, entryID domain.TurnID, attempt int, retry domain.Retry) error
	CloseTurn(ctx context.Context, turn domain.ClosingTurn) error
	// CloseAndClaim also claims the calls of the turn that have a claimant, unless the
	// chat was stopped, and returns them.
	CloseAndClaim(ctx context.Context, turn domain.ClosingTurn) (claimed []domain.LedgerCall, err error)
	FinishedCalls(ctx context.Context, entryID domain.TurnID) (open []domain.PlannedCall, asked int, err error)
	Transcript(ctx context.Context, q domain.TranscriptQuery) (domain.Transcript, error)
	// SessionLimits returns the images and tool servers of a session that the server of a
	// model does not take.
	SessionLimits(ctx context.Context, sessionID domain.SessionID, model string) ([]domain.ModelLimit, error)
	KeepModelLimits(ctx context.Context, limits ...domain.ModelLimit) error
	// RememberRecall keeps which memories a chat was given.
	RememberRecall(ctx context.Context, chatID domain.ChatID, turn domain.OpenedTurn, recalled []domain.RecalledMemory) error
}

// Ledger stores the tool calls, so that no effect happens twice.
type Ledger interface {
	ClaimCall(ctx context.Context, toolCallID, claimant string) (domain.LedgerCall, domain.LedgerState, error)
	RenewCall(ctx context.Context, toolCallID string, attempt int) error
	RecordCall(ctx context.Context, call domain.LedgerCall, done domain.FinishedCall) error
	// ImageBytes gives how many bytes the images of the session's results have together.
	ImageBytes(ctx context.Context, sessionID domain.SessionID) (int64, error)
	CallStatus(ctx context.Context, toolCallID string) (domain.ToolCallStatus, error)
	// ReadsOutside reports whether the chat has read content from outside, such as a page.
	ReadsOutside(ctx context.Context, chatID domain.ChatID) (bool, error)
	// Permission returns whether the user has allowed the call, and the digests of the files
	// that it named when they were asked.
	Permission(ctx context.Context, toolCallID string) (allowed bool, files map[string]string, err error)
}

// Forks stores the sub-agents of chats; maxConcurrent of one chat work at once.
type Forks interface {
	PauseFork(ctx context.Context, in contract.PauseForkIn, maxConcurrent int) (contract.PauseForkOut, error)
	ForkText(ctx context.Context, loopID string) (domain.ForkText, error)
	EndFork(
		ctx context.Context,
		end domain.ForkEnd,
		maxConcurrent int,
		restored map[domain.TurnID][]domain.Block,
	) (contract.EndForkOut, error)
}

// EventLog takes the deltas of a stream, which are not state, and returns them when a
// worker died with them.
type EventLog interface {
	stream.Log

	Read(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error
	Last(ctx context.Context, sessionID domain.SessionID) (uint64, error)
}

// Stops broadcasts the stop of a chat. The flag in the database is the truth: watch
// first, then read it.
type Stops interface {
	WatchStop(chatID domain.ChatID) (stopped <-chan struct{}, cancel func())
	// WatchTaskStop is WatchStop for a background task.
	WatchTaskStop(taskID string) (stop <-chan struct{}, cancel func())
}

// ResultImages keeps the images of tool results.
type ResultImages interface {
	KeepImage(ctx context.Context, sessionID domain.SessionID, mime string, data []byte) (domain.CallImage, error)
}

// Speech is the speech model.
type Speech interface {
	Transcribe(ctx context.Context, rec speech.Recording) (speech.Transcription, error)
}

// Recordings stores the recordings of messages and what was said in them.
type Recordings interface {
	// SpokenTurn reads a user turn for the chat that waits for its recordings.
	SpokenTurn(ctx context.Context, sessionID domain.SessionID, chatID domain.ChatID, entryID domain.TurnID) (speech.SpokenTurn, error)
	// Recording reads one that is kept as an object.
	Recording(ctx context.Context, object string) (speech.Recording, error)
	// RecordTranscription keeps what was said, unless it is known already. It is
	// domain.ErrFenced when the chat has ended or was stopped.
	RecordTranscription(ctx context.Context, heard speech.Heard) error
}

// Workspaces returns where a session's files are on this machine.
type Workspaces interface {
	Root(ctx context.Context, sessionID domain.SessionID, uid int) (string, error)
}

// Profiles returns how the agent of a session is set up. It answers from memory.
type Profiles interface {
	Profile(session domain.Session) domain.Profile
}

// Environment returns the variables of a session's tools: its own, over those of its
// owner's buckets.
type Environment interface {
	ToolEnv(ctx context.Context, session domain.Session) (map[string]string, error)
}

// ContextSizes measures the next prompt of a loop.
type ContextSizes interface {
	Weigh(ctx context.Context, key domain.TurnKey) (domain.ContextWeight, error)
}

// Memories finds what is worth knowing for a session and a question.
type Memories interface {
	Recall(ctx context.Context, session domain.Session, query string) ([]domain.RecalledMemory, error)
}

// Metrics counts what was done.
type Metrics interface {
	ChatEnded(finishReason string)
	ModelCalled(outcome string, took time.Duration)
	ToolCalled(tool, status string, took time.Duration)
}

// restoreTimeout bounds the look at the event log for all open turns of a chat: it must
// leave time for the end itself in a local step of 10 s.
const restoreTimeout = 5 * time.Second
