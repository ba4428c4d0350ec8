// Package chat decides the state transitions of a session's chats. Its functions are pure: a
// store reads the state under the lock of the session's row, calls one of them, and writes the
// result. A fact that cannot change a decision can be left at its zero value, so that a store
// need not read it.
package chat

import "everloop/domain"

// Session is the state of a session that decisions about its chats depend on.
type Session struct {
	Replaying bool // a replay is played in it, which owns its chats
	Moving    bool // an operation changes its history
	Active    bool // a chat runs
	Queued    int  // messages that wait for their own chat
	Questions int  // that are open
}

// Current is the chat that a message to the session refers to.
type Current int

// A chat that was acknowledged, and that no run has taken yet, counts as the current one, so
// that a message sent immediately after its acknowledgement refers to this chat.
const (
	None     Current = iota
	Running          // the active chat
	Promised         // the first chat of the queue
)

// Current returns the chat that a message refers to.
func (s Session) Current() Current {
	switch {
	case s.Active:
		return Running
	case s.Queued > 0 && s.Questions == 0:
		return Promised
	default:
		return None
	}
}

// Free returns an error unless messages, answers and operations on the history can change the
// session.
func (s Session) Free() error {
	switch {
	case s.Replaying:
		return Replaying()
	case s.Moving:
		return Moving()
	default:
		return nil
	}
}

// Replaying returns the error of a session in which a replay is played.
func Replaying() *domain.Error {
	return domain.Newf(domain.Conflict, domain.CodeSessionBusy,
		"a replay is played in this session; it takes messages once the replay has finished or was handed over (status autonomous)")
}

// Moving returns the error of a session whose history an operation changes.
func Moving() *domain.Error {
	return domain.Newf(domain.Conflict, domain.CodeSessionBusy, "the history of this session is being changed")
}

// Busy returns the error of a session in which a chat runs or waits for its run.
func Busy() *domain.Error {
	return domain.Newf(domain.Conflict, domain.CodeSessionBusy, "a chat is running in this session")
}
