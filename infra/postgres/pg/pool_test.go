package pg_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/testkit"
	"everloop/service/tasks"
)

// Whatever holds all connections of its kind, the other kinds continue.
func TestPool_kindsDoNotStarveEachOther(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2, StepConns: 2, LeaseConns: 1})

	hold := func(ctx context.Context) {
		for range 2 {
			tx, err := db.Pool.Begin(ctx)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, tx.Rollback(context.Background())) })
		}
	}
	one := func(ctx context.Context) (n int) {
		require.NoError(t, db.Pool.QueryRow(ctx, `SELECT 1`).Scan(&n))
		return n
	}

	hold(pg.ForSteps(ctx))
	require.Equal(t, 1, one(ctx), "steps leave the others their connections")
	hold(ctx)
	require.ErrorIs(t, db.RenewCall(ctx, "no call", 1), domain.ErrFenced, "leases are renewed whatever the load")

	full, cancel := context.WithTimeout(pg.ForSteps(ctx), 50*time.Millisecond)
	defer cancel()

	require.ErrorIs(t, db.InTx(full, func(pgx.Tx) error { return nil }), context.DeadlineExceeded)
}

// Renewals do not wait for the disk, and everything else does.
func TestPool_leasesCommitAsynchronously(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 1, StepConns: 1, LeaseConns: 1})

	for want, row := range map[string][]pgx.Row{
		"off": {db.Pool.Leases().QueryRow(ctx, `SHOW synchronous_commit`)},
		"on":  {db.Pool.QueryRow(ctx, `SHOW synchronous_commit`), db.Pool.QueryRow(pg.ForSteps(ctx), `SHOW synchronous_commit`)},
	} {
		for _, row := range row {
			var setting string
			require.NoError(t, row.Scan(&setting))
			require.Equal(t, want, setting)
		}
	}
}

// A pool without connections of their own serves steps and leases from the shared
// ones.
func TestPool_sharesByDefault(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	var n int
	require.NoError(t, db.Pool.QueryRow(pg.ForSteps(t.Context()), `SELECT 1`).Scan(&n))
	require.ErrorIs(t, db.RenewCall(t.Context(), "no call", 1), domain.ErrFenced)
}

// A statement of a step ends by its own limit, not by that of its activity.
func TestPool_limitsStatementsOfSteps(t *testing.T) {
	t.Parallel()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 4, StepLimit: 200 * time.Millisecond})
	ctx := pg.ForSteps(t.Context())

	_, err := db.Pool.Exec(ctx, `SELECT pg_sleep(60)`)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	var batch pgx.Batch
	batch.Queue(`SELECT pg_sleep(60)`)
	require.ErrorIs(t, db.Pool.SendBatch(ctx, &batch).Close(), context.DeadlineExceeded)
	require.ErrorIs(t, db.InTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
		return err
	}), context.DeadlineExceeded)
	_, err = db.Pool.Exec(t.Context(), `SELECT pg_sleep(0.3)`)
	require.NoError(t, err, "other statements have no limit")
}

// seenStatements counts the statements that a tracer is shown.
type seenStatements struct{ n atomic.Int32 }

func (s *seenStatements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*seenStatements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Renewals of leases continue for as long as work lasts: they are not shown to tracers.
func TestOpen_leasesAreNotTraced(t *testing.T) {
	t.Parallel()

	seen := &seenStatements{}
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2, LeaseConns: 1, Tracer: seen})
	store := tasks.NewStore(db.DB, nil)
	before := seen.n.Load()
	_, err := store.TaskAlive(t.Context(), "none", 1, 0, time.Time{})
	require.ErrorIs(t, err, domain.ErrFenced)
	require.Equal(t, before, seen.n.Load())
	_, err = db.Pool.Exec(t.Context(), `SELECT 1`)
	require.NoError(t, err)
	require.Greater(t, seen.n.Load(), before)
}
