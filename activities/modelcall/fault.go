package modelcall

import (
	"context"
	"errors"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/internal/durable"
	"everloop/internal/retry"
)

// failed ends an attempt that has no answer: the call is made again later, or the
// chat fails. Text that clients have seen stays with its turn, which ends then; a
// turn that has shown nothing is kept for the next try.
func (m *modelCall) failed(ctx context.Context, cause error, blocks []domain.Block) (contract.CallModelOut, error) {
	faults := m.turn.Faults
	if faults.Count > 0 {
		faults.Age += time.Since(m.opened)
	}

	faults.Paid += m.paid

	v := modelretry.Judge(cause, faults, m.Retry.Limit(m.turn.Chat.Trigger, m.turn.Session.Setup))
	if errors.Is(cause, durable.ErrDraining) {
		v = modelretry.Interrupted(cause, durable.DrainPause)
	}

	retry := &domain.Retry{Attempt: faults.Count + 1, Reason: v.Reason, Waiting: v.Waiting, Wait: v.Wait, Fault: v.Fault, Paid: m.paid}
	switch err := m.leave(ctx, v, retry, blocks); {
	case err == nil || errors.Is(err, domain.ErrFenced):
	case domain.AsError(err).Kind == domain.Unavailable:
		return contract.CallModelOut{}, err
	default: // each further attempt would call the model, and fail here again
		m.Logger.Error("failed to record a model fault", "chat_id", m.key.ChatID, "turn_id", m.turn.EntryID, "error", err)
		return contract.CallModelOut{}, durable.Final(domain.CodeInternal, "the fault of a model call could not be recorded")
	}

	switch {
	case v.Final:
		return contract.CallModelOut{}, durable.Final(v.Code, v.Reason)
	case v.Fault:
		m.Logger.Warn("retrying model call", "session_id", m.key.SessionID, "chat_id", m.key.ChatID, "loop_id", m.key.LoopID,
			"step", m.key.Step, "faults", retry.Attempt, "wait", v.Wait, "error", v.Reason)

		return contract.CallModelOut{
			EntryID: m.turn.EntryID, Outcome: contract.OutcomeRetryLater,
			Wait: contract.NewWait(v.Wait, m.key.Step, retry.Attempt, v.Kind),
		}, nil
	default:
		return contract.CallModelOut{}, durable.Retry(v.Code, v.Reason, v.Wait)
	}
}

// leave releases the turn to the next try, or closes it.
func (m *modelCall) leave(ctx context.Context, v modelretry.Verdict, retry *domain.Retry, blocks []domain.Block) error {
	if !v.Final && !m.stream.Shown() {
		return m.Store.ReleaseTurn(ctx, m.key, m.turn.EntryID, m.turn.Attempt, *retry)
	}

	closing := m.closing(domain.TurnFailed, blocks)

	closing.FailureReason = v.Reason
	if !v.Final {
		closing.Retry = retry
	}

	return m.Store.CloseTurn(ctx, closing)
}

// delayed sends a run back to its wait: it was signalled, or took over from one
// that was lost.
func (c *Caller) delayed(key domain.TurnKey, faults domain.ModelFaults) contract.CallModelOut {
	return contract.CallModelOut{Outcome: contract.OutcomeRetryLater, Wait: contract.NewWait(faults.RetryIn, key.Step, faults.Count, "")}
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

	return m.Fast.CloseTurn(ctx, closing, m.taskID, func(closing domain.ClosingTurn) ([]domain.LedgerCall, error) {
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
		m.Cache.Closed(m.turn, m.transcript, m.model, closing)
		return claimed, nil
	case tries > 1 && errors.Is(err, domain.ErrFenced):
		return nil, domain.Unavailablef("the database", errors.New("the reply to the end of the turn was lost"))
	default:
		return nil, err
	}
}
