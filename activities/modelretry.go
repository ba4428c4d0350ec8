package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
	"everloop/internal/retry"
)

// Codes of a chat whose model call was refused, and of one whose account at the model
// server has nothing left.
const (
	CodeModelRefused = "model_refused"
	CodeModelQuota   = domain.CodeModelQuota
)

// maxInternalFaults bounds the tries of a call that fails for a reason which is
// neither the model's nor an engine's: each try costs a model call.
const maxInternalFaults = 8

// verdict says what becomes of a model call that failed.
type verdict struct {
	reason  string
	waiting domain.WaitingReason

	final bool          // it is not retried
	code  string        // of a final one, and of an attempt that Temporal retries
	fault bool          // it counts among the loop's model faults
	wait  time.Duration // 0: the backoff of the activity's preset
	kind  string        // of a fault, for operators: nothing that the server said
}

// judge sorts a failure: a fault of the model is waited for up to the limit; a
// worker or an engine that was lost is left to Temporal, whose attempts have a
// limit of their own; all else is final.
func judge(cause error, faults domain.ModelFaults, limit time.Duration) verdict {
	v := verdict{reason: domain.CleanText(reasonOf(cause)), waiting: domain.WaitingModel, code: finalCode(cause)}
	if errors.Is(cause, durable.ErrDraining) {
		v.code, v.wait = domain.CodeModelRetry, durable.DrainPause
		return v
	}

	fault, known := errors.AsType[*domain.ModelError](cause)
	if !known {
		return v.internal(domain.AsError(cause), faults)
	}

	v.kind = string(fault.Fault)
	if fault.Status != 0 {
		v.kind += fmt.Sprintf(", status %d", fault.Status)
	}

	if v.final = !fault.Retryable(); v.final {
		return v
	}

	if faults.Paid >= maxPaidCalls {
		v.final, v.reason = true, v.reason+fmt.Sprintf("; %d answers broke off, which is the limit", faults.Paid)
		return v
	}

	v.fault, v.waiting = true, domain.WaitingModelDown
	if fault.Fault == domain.FaultRateLimited {
		v.waiting = domain.WaitingRateLimit
	}

	wait, ok := faults.Pause(limit, fault.RetryAfter)
	if v.wait = wait; !ok {
		v.final, v.reason = true, v.reason+givenUp(faults, limit, fault.RetryAfter)
	}

	return v
}

func (v verdict) internal(e *domain.Error, faults domain.ModelFaults) verdict {
	switch {
	case e.Kind == domain.Unavailable: // an engine is away
	case e.Kind != domain.Internal && !e.Retryable(), faults.Count+1 >= maxInternalFaults:
		v.final = true
	default:
		v.fault, v.kind = true, domain.CodeInternal
		v.wait, _ = faults.Pause(time.Hour, 0)
	}

	return v
}

// givenUp says why a call that may succeed later is not retried.
func givenUp(faults domain.ModelFaults, limit, retryAfter time.Duration) string {
	if left := limit - faults.Age; left > 0 {
		return fmt.Sprintf(
			"; the server asks to wait for %s, and retries end in %s", retryAfter.Round(time.Second), left.Round(time.Second),
		)
	}

	return fmt.Sprintf("; %d calls failed in %s, which is the limit", faults.Count+1, faults.Age.Round(time.Second))
}

// limit is how long calls of this chat are retried.
func (a *Activities) retryLimit(chat domain.ChatSettings, session domain.Session) time.Duration {
	return a.ModelRetry.Limit(chat.Trigger, session.Setup)
}

// failed ends an attempt that has no answer: the call is made again later, or the
// chat fails. Text that clients have seen stays with its turn, which ends then; a
// turn that has shown nothing is kept for the next try.
func (m *modelCall) failed(ctx context.Context, cause error, blocks []domain.Block) (contract.CallModelOut, error) {
	faults := m.turn.Faults
	if faults.Count > 0 {
		faults.Age += time.Since(m.opened)
	}

	faults.Paid += m.paid

	v := judge(cause, faults, m.retryLimit(m.turn.Chat, m.turn.Session))
	retry := &domain.Retry{Attempt: faults.Count + 1, Reason: v.reason, Waiting: v.waiting, Wait: v.wait, Fault: v.fault, Paid: m.paid}
	switch err := m.leave(ctx, v, retry, blocks); {
	case err == nil || errors.Is(err, domain.ErrFenced):
	case domain.AsError(err).Kind == domain.Unavailable:
		return contract.CallModelOut{}, err
	default: // each further attempt would call the model, and fail here again
		m.Logger.Error("failed to record a model fault", "chat_id", m.key.ChatID, "turn_id", m.turn.EntryID, "error", err)
		return contract.CallModelOut{}, durable.Final(domain.CodeInternal, "the fault of a model call could not be recorded")
	}

	switch {
	case v.final:
		return contract.CallModelOut{}, durable.Final(v.code, v.reason)
	case v.fault:
		m.Logger.Warn("retrying model call", "session_id", m.key.SessionID, "chat_id", m.key.ChatID, "loop_id", m.key.LoopID,
			"step", m.key.Step, "faults", retry.Attempt, "wait", v.wait, "error", v.reason)

		return contract.CallModelOut{
			EntryID: m.turn.EntryID, Outcome: contract.OutcomeRetryLater,
			Wait: waitFor(v.wait, m.key.Step, retry.Attempt, v.kind),
		}, nil
	default:
		return contract.CallModelOut{}, durable.Retry(v.code, v.reason, v.wait)
	}
}

// leave releases the turn to the next try, or closes it.
func (m *modelCall) leave(ctx context.Context, v verdict, retry *domain.Retry, blocks []domain.Block) error {
	if !v.final && !m.stream.Shown() {
		return m.Turns.ReleaseTurn(ctx, m.key, m.turn.EntryID, m.turn.Attempt, *retry)
	}

	closing := m.closing(domain.TurnFailed, blocks)

	closing.FailureReason = v.reason
	if !v.final {
		closing.Retry = retry
	}

	return m.Turns.CloseTurn(ctx, closing)
}

// delayed sends a run back to its wait: it was signalled, or took over from one
// that was lost.
func (a *Activities) delayed(key domain.TurnKey, faults domain.ModelFaults) contract.CallModelOut {
	return contract.CallModelOut{Outcome: contract.OutcomeRetryLater, Wait: waitFor(faults.RetryIn, key.Step, faults.Count, "")}
}

func waitFor(wait time.Duration, step, faults int, kind string) *contract.Wait {
	if kind != "" {
		kind = " (" + kind + ")"
	}

	return &contract.Wait{
		MS:      max(wait.Milliseconds(), 1),
		Summary: fmt.Sprintf("Model unavailable: retry of model call %d after fault %d%s", step, faults, kind),
	}
}

// recordFor is how long an answer is kept while the database is unavailable. A model call
// is expensive, and clients have seen its text.
const recordFor = 2 * time.Minute

// record closes the turn with its answer, and starts those of its calls that this
// worker may run. While PostgreSQL is unavailable it retries. Whether a try whose reply
// was lost has closed the turn is found out by the activity's next attempt.
func (m *modelCall) record(ctx context.Context, closing domain.ClosingTurn) error {
	ctx, cancel := context.WithTimeout(ctx, recordFor)
	defer cancel()

	return m.startEarly(ctx, closing, m.taskID, func(closing domain.ClosingTurn) ([]domain.LedgerCall, error) {
		return m.tryToRecord(ctx, closing)
	})
}

func (m *modelCall) tryToRecord(ctx context.Context, closing domain.ClosingTurn) ([]domain.LedgerCall, error) {
	var claimed []domain.LedgerCall

	tries := 0

	err := retry.Writes(recordFor).Do(ctx, func() (err error) {
		tries++
		asked := time.Now()

		claimed, err = m.Turns.CloseAndClaim(ctx, closing)
		for i := range claimed {
			claimed[i].AskedAt = asked
		}

		return err
	}, func(err error) bool {
		if errors.Is(err, domain.ErrFenced) || domain.AsError(err).Kind != domain.Unavailable {
			return false
		}

		m.Logger.Warn("retrying to record an answer", "chat_id", m.key.ChatID, "turn_id", m.turn.EntryID, "error", err)

		return true
	})
	switch {
	case err == nil:
		m.transcripts.closed(m, closing)
		return claimed, nil
	case tries > 1 && errors.Is(err, domain.ErrFenced):
		return nil, domain.Unavailablef("the database", errors.New("the reply to the end of the turn was lost"))
	default:
		return nil, err
	}
}

// modelAway turns the error of a model server that does not list its models into a model
// fault, so that it is not taken for an engine that is unavailable.
func modelAway(err error) error {
	if e, ok := errors.AsType[*domain.Error](err); ok && e.Kind == domain.Unavailable {
		return &domain.ModelError{Fault: domain.FaultTransient, Message: e.Message}
	}

	return err
}

func reasonOf(cause error) string {
	if fault, ok := errors.AsType[*domain.ModelError](cause); ok {
		return fault.Error()
	}

	if e, ok := errors.AsType[*domain.Error](cause); ok {
		return e.Message
	}

	if errors.Is(cause, durable.ErrDraining) {
		return cause.Error()
	}

	return fmt.Sprintf("the model call could not be made: %v", cause)
}

func finalCode(cause error) string {
	if fault, ok := errors.AsType[*domain.ModelError](cause); ok {
		switch fault.Fault {
		case domain.FaultContextOverflow:
			return domain.CodeContextOverflow
		case domain.FaultUnknownModel:
			return domain.CodeUnknownModel
		case domain.FaultRefused:
			return CodeModelRefused
		case domain.FaultQuota:
			return CodeModelQuota
		case domain.FaultTransient, domain.FaultRateLimited:
		}

		return domain.CodeModelUnavailable
	}

	if e, ok := errors.AsType[*domain.Error](cause); ok {
		return e.Code
	}

	return domain.CodeInternal
}
