package schedule

import "time"

// MinCatchup is the shortest catch-up window of a Schedule.
const MinCatchup = 10 * time.Second

// Catchup returns how late a tick can start.
func (s TaskSpec) Catchup() time.Duration {
	return max(time.Duration(s.CatchupWindowS)*time.Second, MinCatchup)
}

// LateAfter is the maximum delay of a tick that counts as in time.
const LateAfter = time.Minute

// Decision is how a tick is recorded.
type Decision struct {
	Outcome TickOutcome
	Reason  string
	// Runs: the tick runs. Waits: it waits in the Schedule's buffer.
	Runs, Waits bool
	Manual      bool
}

// Beginning describes a workflow that starts the run of a tick.
type Beginning struct {
	Matches bool          // the task is due at its nominal time
	Late    time.Duration // from the due time to the start of the workflow
	Age     time.Duration // from the due time to now
	Before  bool          // a record exists for the tick, which did not run
	Early   bool          // the tick is older than the task
}

// Begin decides how to record a run for which no record waits. The Schedule starts ticks within
// the catch-up window, and ticks that an operator triggers or backfills.
func (s TaskSpec) Begin(b Beginning) Decision {
	switch {
	case !b.Matches:
		return Decision{Outcome: TickFired, Reason: ReasonRunNow, Runs: true, Manual: true}
	case b.Early, b.Before && b.Late > LateAfter, b.Late > s.Catchup()+LateAfter:
		return Decision{Outcome: TickFired, Reason: ReasonBackfilled, Runs: true}
	case b.Age > s.Catchup()+LateAfter: // no worker took it
		return Decision{Outcome: TickMissed, Reason: ReasonWindowOver}
	case b.Age > LateAfter:
		return Decision{Outcome: TickCaughtUp, Reason: ReasonLate, Runs: true}
	default:
		return Decision{Outcome: TickFired, Runs: true}
	}
}

// Unstarted is a tick that the Schedule has passed without starting a workflow.
type Unstarted struct {
	Paused   bool // the task was paused
	Buffered bool // the Schedule has buffered ticks
	Active   bool // a run of the task was active at the time of the tick
	Age      time.Duration
}

// NotStarted decides how a tick is recorded that started no workflow.
func (s TaskSpec) NotStarted(u Unstarted) Decision {
	switch buffers := s.Overlap != OverlapSkip && s.Overlap != OverlapAllowAll; {
	case u.Paused:
		return Decision{Outcome: TickSkipped, Reason: ReasonPaused}
	case buffers && u.Buffered:
		return Decision{Outcome: TickFired, Waits: true}
	case s.Overlap != OverlapAllowAll && (u.Active || u.Age <= s.Catchup()):
		return s.Overlap.overlapped()
	default:
		return Decision{Outcome: TickMissed, Reason: ReasonWindowOver}
	}
}

// overlapped returns the record of a tick that did not run because of another one.
func (o Overlap) overlapped() Decision {
	switch o {
	case OverlapBufferOne:
		return Decision{Outcome: TickCoalesced, Reason: ReasonPreviousWaiting}
	case OverlapBufferAll:
		return Decision{Outcome: TickSkipped, Reason: ReasonTooManyRuns}
	case OverlapCancelOther:
		return Decision{Outcome: TickFired, Reason: ReasonCancelledByNext}
	default:
		return Decision{Outcome: TickSkipped, Reason: ReasonPreviousActive}
	}
}

// Waiting decides about the waiting records, the oldest first, while the Schedule has some
// ticks in its buffer. Records beyond the buffer did not run.
func (o Overlap) Waiting(records, buffered int) []Decision {
	decisions := make([]Decision, records)
	for i := range decisions {
		waits := false

		switch o {
		case OverlapBufferOne: // retains the first, and drops later ones
			waits = i < buffered && i == 0
		case OverlapCancelOther:
			waits = buffered > 0 && i == records-1
		default:
			waits = i >= records-buffered
		}

		if decisions[i] = o.overlapped(); waits {
			decisions[i] = Decision{Outcome: TickFired, Waits: true}
		}
	}

	return decisions
}
