package domain

import "time"

// Pauses between the tries of a model call.
const (
	modelFirstPause = time.Second
	modelLastPause  = time.Minute
)

// MaxModelRetryS bounds how long a session may have its model calls retried, in
// seconds: seven days.
const MaxModelRetryS = 7 * 24 * 3600

// ModelRetry says for how long a model call that keeps failing is retried.
type ModelRetry struct {
	For        time.Duration // of chats that a user waits for
	Unattended time.Duration // of chats that a schedule, a DAG or an issue started
}

// DefaultModelRetry is what MODEL_RETRY_FOR and MODEL_RETRY_UNATTENDED change.
var DefaultModelRetry = ModelRetry{For: 10 * time.Minute, Unattended: 24 * time.Hour}

// Limit is how long after the first fault a call of this chat is retried. What
// the session says for itself comes first.
func (r ModelRetry) Limit(trigger Trigger, setup SessionSetup) time.Duration {
	if setup.MaxModelRetryS > 0 {
		return time.Duration(setup.MaxModelRetryS) * time.Second
	}

	switch trigger {
	case TriggerSchedule, TriggerDAG, TriggerIssue:
		return r.Unattended
	default:
		return r.For
	}
}

// ModelFaults are the faults of a loop's model calls since one last succeeded,
// as they were when they were read.
type ModelFaults struct {
	Count   int
	Paid    int           // answers among them that the model server may charge
	Age     time.Duration // since the first of them
	RetryIn time.Duration // until the next call may be made; 0 or less: now
}

// Pause is the wait after one more fault: at least what the server asks for, and
// growing with each fault. ok is false when the time that is left has passed, or
// passes before the server wants to be asked again.
func (f ModelFaults) Pause(limit, retryAfter time.Duration) (wait time.Duration, ok bool) {
	left := limit - f.Age

	wait = modelFirstPause
	for range min(f.Count, 10) {
		wait = min(2*wait, modelLastPause)
	}

	switch {
	case left <= 0 || retryAfter > left:
		return 0, false
	case retryAfter > wait:
		return retryAfter, true
	default:
		return min(wait, left), true // the last try comes when the time is over
	}
}
