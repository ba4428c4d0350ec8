package trigger

import (
	"slices"
	"time"
)

// Take takes one of so many events in a minute, by the generic cell rate algorithm: next is the
// state of the rate, zero at first. It returns the new state, or how long the sender must wait.
func Take(next, now time.Time, perMinute int) (after time.Time, wait time.Duration) {
	period := time.Minute / time.Duration(perMinute)
	if next.Before(now) {
		next = now
	}

	if wait = next.Sub(now) - (time.Minute - period); wait > 0 {
		return next, wait
	}

	return next.Add(period), 0
}

// TakeRefusal is Take for the records of deliveries that start nothing. More of them are answered
// without a record.
func TakeRefusal(next, now time.Time) (after time.Time, wait time.Duration) {
	return Take(next, now, refusedPerMinute)
}

// CheckChain returns why a trigger cannot continue a chain of triggers, each of which has started
// a run whose end the next one followed; empty: it can.
func CheckChain(ancestors []string, triggerID string) (reason string) {
	switch {
	case slices.Contains(ancestors, triggerID):
		return ReasonCircle
	case len(ancestors) >= MaxDepth:
		return ReasonDepth
	default:
		return ""
	}
}

// ChainFault returns a reason of CheckChain in words.
func ChainFault(reason string) string {
	switch reason {
	case ReasonCircle:
		return "this trigger has already started a run in the chain that led to this event"
	case ReasonDepth:
		return "the chain of triggers that led to this event is 8 deep"
	default:
		return ""
	}
}
