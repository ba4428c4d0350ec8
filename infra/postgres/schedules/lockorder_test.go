package schedules_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/target"
)

// Each step of a run takes the lock of the task before that of the run: a step that waits for
// the task and holds the run would deadlock with the others, which change the run under the
// lock of the task.
func TestStore_stepsOfRuns_lockTaskFirst(t *testing.T) {
	t.Parallel()

	steps := map[string]func(ctx context.Context, s timetable, runID string) error{
		"claim": func(ctx context.Context, s timetable, runID string) error {
			_, _, err := s.db.ClaimRun(ctx, start(runID))
			return err
		},
		"begin": func(ctx context.Context, s timetable, runID string) error {
			_, err := s.db.RunBegan(ctx, runID, target.Started{Kind: target.Prompt, ChatID: domain.ChatID(domain.NewID())})
			return err
		},
		"block": func(ctx context.Context, s timetable, runID string) error {
			_, err := s.db.BlockRun(ctx, runID, "blocked", "the message was rejected")
			return err
		},
		"cancel": func(ctx context.Context, s timetable, runID string) error {
			_, _, err := s.db.CancelRun(ctx, runID)
			return err
		},
		"stop": func(ctx context.Context, s timetable, runID string) error {
			_, err := s.db.StopRun(ctx, runID)
			return err
		},
		"end": func(ctx context.Context, s timetable, runID string) error {
			_, _, err := s.db.EndRun(ctx, runID)
			return err
		},
		"end of checks": func(ctx context.Context, s timetable, runID string) error {
			_, err := s.db.EndChecks(ctx, runID, nil)
			return err
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTimetable(t)
			run := s.claim().RunID

			tx, err := s.db.Pool.Begin(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })

			_, err = tx.Exec(t.Context(),
				`SELECT 1 FROM scheduled_tasks WHERE id = (SELECT task_id FROM scheduled_runs WHERE id = $1) FOR UPDATE`, run)
			require.NoError(t, err)

			done := make(chan error, 1)
			go func() { done <- step(t.Context(), s, run) }()

			blocked := `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid)))`

			require.Eventually(t, func() bool {
				var waits bool
				return s.db.Pool.QueryRow(t.Context(), blocked, int32(tx.Conn().PgConn().PID())).Scan(&waits) == nil && waits
			}, time.Minute, 5*time.Millisecond, "the step does not wait for the task")

			_, err = tx.Exec(t.Context(), `SELECT 1 FROM scheduled_runs WHERE id = $1 FOR UPDATE NOWAIT`, run)
			require.NoError(t, err, "the step holds the run while it waits for the task")
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, <-done)
		})
	}
}
