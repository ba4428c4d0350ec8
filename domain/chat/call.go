package chat

import "everloop/domain"

// Work contains the facts that decide whether work for a loop can start or continue.
type Work struct {
	Chat          domain.ChatState
	StopRequested bool             // of the chat
	Loop          domain.LoopState // empty: the main loop

	Background  bool // the loop is a background task, which outlives the chat
	TaskRunning bool // and its stop was not requested
}

// Alive reports whether work for the loop can start: its chat runs, or, in the background, its
// task does.
func (w Work) Alive() bool {
	if w.Loop == domain.LoopEnded {
		return false
	}

	if w.Background {
		return w.TaskRunning
	}

	return w.Chat == domain.ChatStateRunning && !w.StopRequested
}

// Call is the state of a tool call that a worker claims.
type Call struct {
	Phase     string
	Alive     bool // work for its loop can start
	Permitted bool // no permission question blocks it
	Held      bool // the lease of an attempt is valid
	Announced bool // the lease ended, and so did the time that its worker was given to renew it
	Own       bool // that attempt is the caller's, whose response was lost: it has not started
}

// ClaimCall decides about the claim of a tool call. The tool decides whether an abandoned call
// can run again.
func ClaimCall(c Call) domain.LedgerState {
	switch {
	case c.Phase == domain.PhaseFinished || c.Phase == domain.PhaseUnknownOutcome:
		return domain.CallRecorded
	case c.Phase == domain.PhaseRunning && c.Held && !c.Own:
		return domain.CallHeld
	case !c.Alive || !c.Permitted:
		return domain.CallStopped
	case c.Phase == domain.PhaseRunning && !c.Own && !c.Announced:
		return domain.CallHeld // until the takeover is announced
	case c.Phase == domain.PhaseRunning && !c.Own:
		return domain.CallAbandoned
	default:
		return domain.CallClaimed
	}
}
