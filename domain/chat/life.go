package chat

import "everloop/domain"

// Claims are the chats that a run can take.
type Claims int

// A run takes the open chat of its session if there is one, else the next of the queue.
const (
	ClaimNothing Claims = iota
	ClaimOpen           // no chat of the queue: an operation changes the history, and wakes the session when it has finished
	ClaimAny
)

// Claim decides which chats a run can take. The chats of a replay belong to the replay.
func Claim(s Session) Claims {
	switch {
	case s.Replaying:
		return ClaimNothing
	case s.Moving:
		return ClaimOpen
	default:
		return ClaimAny
	}
}

// Stops is the effect of a stop of the session.
type Stops int

// The effects of a stop.
const (
	StopNext    Stops = iota // the chat that a run is about to take, if there is one
	StopActive               // the running chat
	StopWaiting              // the chat that waits for an answer, with its questions
	StopReplay               // the replay pauses
)

// Stop decides the effect of a stop of the session.
func Stop(s Session) Stops {
	switch {
	case s.Replaying:
		return StopReplay
	case s.Active:
		return StopActive
	case s.Questions > 0:
		return StopWaiting
	default:
		return StopNext
	}
}

// Wait returns the state of a chat that is about to wait for its open questions: a stop is
// handled by the next model call, and a chat without a question continues.
func Wait(state domain.ChatState, questions int, stopRequested bool) domain.ChatState {
	if state == domain.ChatStateRunning && questions > 0 && !stopRequested {
		return domain.ChatStateWaiting
	}

	return state
}

// Resumes reports whether a chat continues when one of its questions was answered: it was the
// last one, or the user has allowed a call, which runs now.
func Resumes(state domain.ChatState, questions int, allowed bool) bool {
	return state == domain.ChatStateWaiting && (questions == 0 || allowed)
}

// Ending is how a chat ends.
type Ending struct {
	Ends          bool // false: it has already ended, or waits
	Reason        domain.FinishReason
	UnlessSteered bool // a message that waits to join it prevents its end
}

// Finish decides how a chat ends that its run, or the reconciler, ends with a reason. A stop
// that was acknowledged before the chat could complete interrupts it. A chat that waits
// continues with an answer or ends with a stop (see Stop): a run that tries to end it has been
// replaced by another and has outdated state.
func Finish(state domain.ChatState, stopRequested bool, reason domain.FinishReason) Ending {
	if state != domain.ChatStateRunning {
		return Ending{}
	}

	if stopRequested && reason == domain.FinishCompleted {
		reason = domain.FinishInterrupted
	}

	return Ending{Ends: true, Reason: reason, UnlessSteered: reason == domain.FinishCompleted}
}
