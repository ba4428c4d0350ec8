package realtime

import (
	"context"
	"time"

	"everloop/domain"
)

// Log is the event log of all sessions.
type Log interface {
	// Tail follows all sessions until ctx ends. It calls started once with the position that it
	// follows from, then each for every later event, in order and exactly once. load parses the
	// event and may fetch it.
	Tail(ctx context.Context, started func(seq uint64),
		each func(sessionID domain.SessionID, seq uint64, size int, load func(context.Context) (domain.Event, error))) error
	// Read calls fn for the stored events of a session with after < seq <= upTo, in order, with
	// PrevSeq.
	Read(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error
	// ReadEdges is Read for only turn:start and turn:end.
	ReadEdges(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error
	// LastUpTo returns the session's newest stored event at or before upTo, 0 for none.
	LastUpTo(ctx context.Context, sessionID domain.SessionID, upTo uint64) (uint64, error)
	// Count returns the number of stored events of the session with a sequence above after.
	Count(ctx context.Context, sessionID domain.SessionID, after uint64) (int, error)
	// Base returns the first number of the log generation that contains the sequence, or would
	// contain it.
	Base(seq uint64) uint64
	// Kept returns how far back the log is complete: it contains every event from seq first on,
	// and every event that was published at since or later. It checks no further back than the
	// event after after.
	Kept(ctx context.Context, after uint64) (first uint64, since time.Time, err error)
	// Missed reports whether a client that has seen a sequence has seen a lost event.
	Missed(seq uint64) bool
}

// State reads sessions' state from the database.
type State interface {
	// Live returns the session's current state. A record is written before its event is
	// published, so the answer includes every event published before the call.
	Live(ctx context.Context, sessionID domain.SessionID) (domain.LiveState, error)
	// TurnsAfter returns a position of the event log before the turn:start of each of the
	// session's turns, 0 when it is unknown for one of them.
	TurnsAfter(ctx context.Context, sessionID domain.SessionID, turns []domain.TurnID) (uint64, error)
}

// Sessions decides what callers can see and do.
type Sessions interface {
	// Role returns the caller's role in the session; session_not_found when the session is
	// missing or not visible to the caller.
	Role(ctx context.Context, caller domain.Caller, sessionID domain.SessionID) (domain.ViewerRole, error)
	// Own returns the run of a session that the caller owns; session_not_found as for Role,
	// forbidden for a session that the caller can only read.
	Own(ctx context.Context, caller domain.Caller, sessionID domain.SessionID) (domain.SessionRun, error)
	// Visible reports for each viewer whether Role would return a role. An error means unknown:
	// callers must not act on it.
	Visible(ctx context.Context, viewers []domain.SessionViewer) ([]bool, error)
	// Alive reports whether the credential of each caller is still valid. A credential that
	// cannot be checked counts as valid.
	Alive(ctx context.Context, callers []domain.Caller) []bool
}

// Chats is the chat service of sessions. The caller must own the session: Sessions.Own returned
// it.
type Chats interface {
	// SendTo returns once the message is durable.
	SendTo(ctx context.Context, caller domain.Caller, session domain.SessionRun, send domain.Send) (domain.SendAck, error)
	// AnswerIn resolves an open question, or reports that another call did.
	AnswerIn(ctx context.Context, caller domain.Caller, session domain.SessionRun, answer domain.Answer) (domain.AnswerAck, error)
	// StopIn interrupts the running chat, and drops queued messages when andQueue is set.
	StopIn(ctx context.Context, caller domain.Caller, session domain.SessionRun, andQueue bool) (stopped bool, err error)
	// Compact starts a compaction of the history.
	Compact(ctx context.Context, caller domain.Caller, sessionID domain.SessionID) (compactionID string, err error)
}
