package contract

import (
	"encoding/json"

	"everloop/domain"
)

// Before 2611.0.0 a step reported its outcome by flags. Results in histories of that
// time have them and no outcome, and workers of that time read them from results that
// newer workers write. This file may go once no run that began before 2611.0.0 is
// open and no worker of an earlier version is left.

// outcomeFlags are the flags. Compact, Wait and Reason counted among them.
type outcomeFlags struct {
	Stopped  bool `json:"stopped,omitempty"`
	Queued   bool `json:"queued,omitempty"`
	Ended    bool `json:"ended,omitempty"`
	Again    bool `json:"again,omitempty"`
	Mismatch bool `json:"mismatch,omitempty"`
	Behind   bool `json:"behind,omitempty"`
}

// callModelOut is CallModelOut without methods.
type callModelOut CallModelOut

// MarshalJSON implements json.Marshaler: it adds the flags.
func (out CallModelOut) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		callModelOut
		outcomeFlags
	}{callModelOut(out), flagsOf(out)})
}

// UnmarshalJSON implements json.Unmarshaler: a result without an outcome gets that of
// its flags.
func (out *CallModelOut) UnmarshalJSON(data []byte) error {
	var wire struct {
		callModelOut
		outcomeFlags
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}

	*out = CallModelOut(wire.callModelOut)
	if out.Outcome == "" {
		wire.decode(out)
	}

	return nil
}

func flagsOf(out CallModelOut) outcomeFlags {
	return outcomeFlags{
		Stopped:  out.Outcome == OutcomeStopped || out.Outcome == OutcomeChatEnded && out.Reason == domain.FinishInterrupted,
		Queued:   out.Outcome == OutcomeQueued,
		Ended:    out.Outcome == OutcomeChatEnded,
		Again:    out.Outcome == OutcomeContinue,
		Mismatch: out.Outcome == OutcomeSchemaMismatch,
		Behind:   out.Outcome == OutcomePendingCalls,
	}
}

// decode sets the outcome. Several flags could be set at once; the order of the cases
// is the one in which runs looked at them.
func (f outcomeFlags) decode(out *CallModelOut) {
	switch {
	case f.Queued:
		out.Outcome = OutcomeQueued
	case out.Wait != nil:
		out.Outcome = OutcomeRetryLater
	case out.Compact != "":
		out.Outcome = OutcomeNeedsCompaction
	case f.Ended:
		out.Outcome, out.Reason = OutcomeChatEnded, domain.FinishCompleted
		if f.Stopped {
			out.Reason = domain.FinishInterrupted
		}
	case f.Stopped:
		out.Outcome = OutcomeStopped
	case out.Reason != "":
		out.Outcome = OutcomeLimitReached
	case f.Mismatch:
		out.Outcome = OutcomeSchemaMismatch
	case f.Behind:
		out.Outcome = OutcomePendingCalls
	case f.Again:
		out.Outcome = OutcomeContinue
	default:
		out.Outcome = OutcomeCompleted
	}
}
