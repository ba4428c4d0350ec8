package schedules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/infra/postgres/pgtest"
)

// message returns the message of a run.
func (s timetable) message(claimed schedule.ClaimedRun) domain.Send {
	return domain.Send{
		SessionID:       claimed.SessionID,
		ClientMessageID: schedule.MessageID(claimed.RunID, claimed.Execution),
		Waiter:          "scheduled-run/" + claimed.RunID,
		Message:         []domain.ContentPart{{Type: "text", Text: "work"}},
		Delivery:        domain.DeliverEnqueue,
		Trigger:         domain.TriggerSchedule,
	}
}

// claim takes a run for its workflow and has its session made.
func (s timetable) claim() schedule.ClaimedRun {
	s.t.Helper()

	task := s.task(func(spec *schedule.TaskSpec) { spec.Cron = "@yearly" })
	claimed, _, err := s.db.ClaimRun(s.t.Context(), start(s.ask(task.ID).ID))
	require.NoError(s.t, err)
	require.NoError(s.t, s.db.EnsureSession(s.t.Context(), s.owner, domain.NewSession{ID: claimed.SessionID}))

	return claimed
}

// An attempt sent the message and died before it recorded the chat: a cancelled run stops
// that chat and waits for its end.
func TestClaimRun_cancelledAfterSend(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	claimed := s.claim()

	sent, err := pgtest.Send(t, s.db, s.owner, s.message(claimed))
	require.NoError(t, err)

	_, _, err = s.db.CancelRun(t.Context(), claimed.RunID)
	require.NoError(t, err)

	again, plan, err := s.db.ClaimRun(t.Context(), start(claimed.RunID))
	require.NoError(t, err)
	require.False(t, again.Ended)
	require.True(t, again.Begun)
	require.Equal(t, []domain.RunChat{{OwnerID: s.owner, SessionID: claimed.SessionID, ChatID: sent.Ack.ChatID}}, plan.Stop)

	next, _, err := s.db.EndRun(t.Context(), claimed.RunID)
	require.NoError(t, err)
	require.Equal(t, schedule.RunWaits, next)
}

// A run that was cancelled before its message was sent has ended, and a worker that still sends
// it is refused.
func TestClaimRun_cancelledBeforeSend(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	claimed := s.claim()

	_, _, err := s.db.CancelRun(t.Context(), claimed.RunID)
	require.NoError(t, err)

	again, plan, err := s.db.ClaimRun(t.Context(), start(claimed.RunID))
	require.NoError(t, err)
	require.True(t, again.Ended)
	require.Empty(t, plan.Stop)

	_, err = pgtest.Send(t, s.db, s.owner, s.message(claimed))
	require.True(t, domain.HasCode(err, domain.CodeSendCancelled), err)
	require.False(t, domain.AsError(err).Retryable())

	own := s.message(claimed)
	own.Waiter = ""
	_, err = pgtest.Send(t, s.db, s.owner, own)
	require.NoError(t, err, "the id of a user's own message")
}
