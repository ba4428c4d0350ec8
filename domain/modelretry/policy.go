// Package modelretry contains the retry policy of model calls: which faults of a model server
// are retried, after which pause, for how long and how often. It is pure: PostgreSQL counts the
// faults of a loop, and a timer of its workflow waits. An attempt that lost its worker or an
// engine is not a fault of the model: Temporal retries it (preset Model of internal/durable).
// The model gateway does not retry requests of the agent.
package modelretry

import (
	"errors"
	"fmt"
	"time"

	"everloop/domain"
)

// The bounds of retries.
const (
	firstPause = time.Second
	maxPause   = time.Minute

	// MaxPaid bounds the answers of one turn that the model server can charge.
	MaxPaid = 4

	// maxInternalFaults bounds the calls that fail for a reason which is neither the model's
	// nor an engine's: each of them costs a model call.
	maxInternalFaults = 8
)

// Policy determines how long a failing model call is retried.
type Policy struct {
	For        time.Duration // of chats that a user waits for
	Unattended time.Duration // of chats that a schedule, a DAG or an issue started
}

// Default is the policy without MODEL_RETRY_FOR, which overrides its For.
var Default = Policy{For: 10 * time.Minute, Unattended: 24 * time.Hour}

// Limit returns how long after the first fault a call of the chat is retried. The setup of the
// session takes precedence.
func (p Policy) Limit(trigger domain.Trigger, setup domain.SessionSetup) time.Duration {
	if setup.MaxModelRetryS > 0 {
		return time.Duration(setup.MaxModelRetryS) * time.Second
	}

	switch trigger {
	case domain.TriggerSchedule, domain.TriggerDAG, domain.TriggerIssue:
		return p.Unattended
	default:
		return p.For
	}
}

// Verdict is what follows a failed model call. A verdict that is neither Final nor a Fault
// leaves the call to the next attempt of its activity.
type Verdict struct {
	Reason  string
	Waiting domain.WaitingReason

	Final bool          // the call is not retried
	Code  string        // of the final error, or of the error that Temporal retries
	Fault bool          // counts among the loop's model faults
	Wait  time.Duration // 0: the backoff of the activity's preset
	Kind  string        // class of a fault, for operators, without the server's text
}

// Interrupted returns the verdict on a call whose worker shuts down: another worker repeats it
// after the pause.
func Interrupted(cause error, pause time.Duration) Verdict {
	return Verdict{Reason: cause.Error(), Waiting: domain.WaitingModel, Code: domain.CodeModelRetry, Wait: pause}
}

// Judge returns the verdict on a failed call after the earlier faults of its loop. A fault of
// the model is retried for the limit, an unavailable engine is left to Temporal, and all
// other errors are final.
func Judge(cause error, faults domain.ModelFaults, limit time.Duration) Verdict {
	v := Verdict{Reason: domain.CleanText(Reason(cause)), Waiting: domain.WaitingModel, Code: Code(cause)}

	fault, ok := errors.AsType[*domain.ModelError](cause)
	if !ok {
		return v.internal(domain.AsError(cause), faults)
	}

	v.Kind = string(fault.Fault)
	if fault.Status != 0 {
		v.Kind += fmt.Sprintf(", status %d", fault.Status)
	}

	if v.Final = !fault.Retryable(); v.Final {
		return v
	}

	if faults.Paid >= MaxPaid {
		v.Final, v.Reason = true, v.Reason+fmt.Sprintf("; %d answers broke off, which is the limit", faults.Paid)
		return v
	}

	v.Fault, v.Waiting = true, domain.WaitingModelDown
	if fault.Fault == domain.FaultRateLimited {
		v.Waiting = domain.WaitingRateLimit
	}

	wait, ok := pause(faults, limit, fault.RetryAfter)
	if v.Wait = wait; !ok {
		v.Final, v.Reason = true, v.Reason+givenUp(faults, limit, fault.RetryAfter)
	}

	return v
}

func (v Verdict) internal(e *domain.Error, faults domain.ModelFaults) Verdict {
	switch {
	case e.Kind == domain.Unavailable: // an engine
	case e.Kind != domain.Internal && !e.Retryable(), faults.Count+1 >= maxInternalFaults:
		v.Final = true
	default:
		v.Fault, v.Kind = true, domain.CodeInternal
		v.Wait, _ = pause(faults, time.Hour, 0)
	}

	return v
}

// pause returns the wait after one more fault: at least the server's Retry-After, and growing
// with each fault. ok is false when the limit has passed, or passes before the end of the wait.
func pause(f domain.ModelFaults, limit, retryAfter time.Duration) (wait time.Duration, ok bool) {
	left := limit - f.Age

	wait = firstPause
	for range min(f.Count, 10) {
		wait = min(2*wait, maxPause)
	}

	switch {
	case left <= 0 || retryAfter > left:
		return 0, false
	case retryAfter > wait:
		return retryAfter, true
	default:
		return min(wait, left), true // the last attempt is made when the limit passes
	}
}

// givenUp describes why a call that could succeed later is not retried.
func givenUp(faults domain.ModelFaults, limit, retryAfter time.Duration) string {
	if left := limit - faults.Age; left > 0 {
		return fmt.Sprintf(
			"; the server asks to wait for %s, and retries end in %s", retryAfter.Round(time.Second), left.Round(time.Second),
		)
	}

	return fmt.Sprintf("; %d calls failed in %s, which is the limit", faults.Count+1, faults.Age.Round(time.Second))
}

// ListFault turns the error of a model server that does not list its models into a fault of
// the model, so that the error is not taken for an unavailable engine.
func ListFault(err error) error {
	if e, ok := errors.AsType[*domain.Error](err); ok && e.Kind == domain.Unavailable {
		return &domain.ModelError{Fault: domain.FaultTransient, Message: e.Message}
	}

	return err
}

// Reason describes a failed call for its user.
func Reason(cause error) string {
	if fault, ok := errors.AsType[*domain.ModelError](cause); ok {
		return fault.Error()
	}

	if e, ok := errors.AsType[*domain.Error](cause); ok {
		return e.Message
	}

	return fmt.Sprintf("the model call could not be made: %v", cause)
}

// Code returns the error code of a chat that ends by the failed call.
func Code(cause error) string {
	if fault, ok := errors.AsType[*domain.ModelError](cause); ok {
		switch fault.Fault {
		case domain.FaultContextOverflow:
			return domain.CodeContextOverflow
		case domain.FaultUnknownModel:
			return domain.CodeUnknownModel
		case domain.FaultRefused:
			return domain.CodeModelRefused
		case domain.FaultQuota:
			return domain.CodeModelQuota
		case domain.FaultTransient, domain.FaultRateLimited:
		}

		return domain.CodeModelUnavailable
	}

	if e, ok := errors.AsType[*domain.Error](cause); ok {
		return e.Code
	}

	return domain.CodeInternal
}
