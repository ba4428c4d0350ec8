// Package history decides about operations on the history of a session: rewinds, changes of
// branch and what-ifs. It contains the session's checkpoints, branches and comparisons. Its
// functions are pure, like those in domain/chat.
package history

import (
	"everloop/domain/chat"
)

// Claim returns an error unless an operation can claim the session: no chat runs or waits in
// the queue, no other operation changes its history, and no replay is played in it. Open
// questions do not prevent a claim: they are cancelled when the session moves.
func Claim(s chat.Session) error {
	if err := s.Free(); err != nil {
		return err
	}

	if s.Active || s.Queued > 0 {
		return chat.Busy()
	}

	return nil
}

// Verdict is what an attempt at an operation can write.
type Verdict int

// The decisions about the end of an operation.
const (
	Apply  Verdict = iota // the attempt is the latest one, and ends the operation
	Done                  // the session has moved: the stored answer applies
	Failed                // the operation has failed: the stored error applies
	Fenced                // a later attempt has taken over
)

// End decides whether an attempt can end an operation in the given state and with the given
// latest attempt.
func End(state State, latest, attempt int) Verdict {
	switch {
	case state == StateDone:
		return Done
	case state != StateRunning:
		return Failed
	case latest != attempt:
		return Fenced
	default:
		return Apply
	}
}
