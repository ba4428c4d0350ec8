//go:build linux

package history_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/infra/postgres"
	"everloop/internal/testkit"
	"everloop/service/history"
)

// outage is an object store that refuses until a time, and sessions with one checkpoint
// each whose files are due. It lives in a synctest bubble, its connections to the database
// included: the clock of the bubble stands still while a statement runs.
type outage struct {
	history.Files
	history *history.Service
	t       *testing.T
	db      *postgres.DB
	until   time.Time
	reason  error // of Finish until then

	mu     sync.Mutex
	looks  int // calls of Begin
	tries  int // calls of Finish
	stored time.Time
}

// inOutage calls test in a bubble, with sessions s0, s1, ….
func inOutage(t *testing.T, sessions int, lasts time.Duration, reason error, test func(*testing.T, *outage)) {
	t.Helper()

	url := testkit.Postgres(t)

	synctest.Test(t, func(t *testing.T) {
		db, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 8})
		require.NoError(t, err)

		defer db.Close()

		for _, statement := range []string{
			`INSERT INTO users (id, username) VALUES ('u', 'x')`,
			fmt.Sprintf(`
				WITH made AS (
					INSERT INTO sessions (id, owner_id, sandbox_uid, active_branch_id)
					SELECT 's' || n, 'u', 800000 + n, 'b' || n FROM generate_series(0, %d) n RETURNING id, active_branch_id),
				branched AS (
					INSERT INTO branches (id, session_id, lineage, reason) SELECT active_branch_id, id, '[]', 'root' FROM made)
				INSERT INTO checkpoints (id, session_id, branch_id, turn_id, kind, sequence, created_at)
				SELECT 'k' || id, id, active_branch_id, '', 'manual', 1, now() - interval '1 hour' FROM made`, sessions-1),
		} {
			_, err = db.Pool.Exec(t.Context(), statement)
			require.NoError(t, err)
		}

		o := &outage{t: t, db: db, until: time.Now().Add(lasts), reason: reason}
		o.history, err = history.New(history.Config{
			Store: history.NewStore(db.DB, nil), Files: o, Runs: &runs{}, Process: "p", Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)

		test(t, o)
		o.history.Drain(t.Context())
		synctest.Wait()
	})
}

func (o *outage) Begin(context.Context, history.CaptureIn) (history.Pending, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.looks++

	return o, nil
}

func (o *outage) Needs() int64 { return 0 }

func (o *outage) Discard() {}

func (o *outage) Finish(context.Context) (domainhistory.Snapshot, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.tries++
	if time.Now().Before(o.until) {
		return domainhistory.Snapshot{}, o.reason
	}

	o.stored = time.Now()

	return domainhistory.Snapshot{ID: "snapshot"}, nil
}

// sleep lets time pass in the bubble, until all that is due by then is done.
func (o *outage) sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a synctest bubble
	synctest.Wait()
}

func (o *outage) exec(statement string) {
	o.t.Helper()
	_, err := o.db.Pool.Exec(o.t.Context(), statement)
	require.NoError(o.t, err)
}

// states returns the states of the checkpoints; that of a delayed capture is delayed.
func (o *outage) states() (states []string) {
	o.t.Helper()
	require.NoError(o.t, o.db.Pool.QueryRow(o.t.Context(), `
		SELECT array_agg(DISTINCT CASE WHEN state = 'pending' AND failure IS NOT NULL THEN 'delayed' ELSE state END)
		FROM   checkpoints`).Scan(&states))

	return states
}

var errUnavailable = domain.Unavailablef("the object store", errors.New("connection refused"))

func TestCapturer_storesAfterAnOutage(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		lasts  time.Duration
		reason error
		first  string        // the state when readers no longer wait
		last   string        // the state in the end
		within time.Duration // after the outage
	}{
		"short":           {lasts: 5 * time.Second, reason: errUnavailable, first: "captured", last: "captured", within: 3 * time.Second},
		"half a minute":   {lasts: 30 * time.Second, reason: errUnavailable, first: "delayed", last: "captured", within: 15 * time.Second},
		"five minutes":    {lasts: 5 * time.Minute, reason: errUnavailable, first: "delayed", last: "captured", within: 15 * time.Second},
		"of another kind": {lasts: time.Hour, reason: errors.New("the snapshot is damaged"), first: "failed", last: "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOutage(t, 1, c.lasts, c.reason, func(t *testing.T, o *outage) {
				start := time.Now()

				require.NoError(t, o.history.Settle(t.Context(), "s0"))
				require.Zero(t, time.Since(start), "a tool waits until its files were seen, not stored")
				require.NoError(t, o.history.Settled(t.Context(), "s0"))
				require.LessOrEqual(t, time.Since(start), 7*time.Second, "a reader waits for the first tries only")
				require.Equal(t, []string{c.first}, o.states())

				o.sleep(6 * time.Minute)
				require.Equal(t, []string{c.last}, o.states())

				if c.last == "captured" {
					require.LessOrEqual(t, o.stored.Sub(o.until), c.within)
					require.Equal(t, 1, o.looks, "with the files that were seen")
				}
			})
		})
	}
}

// Repair tries captures that an outage of hours delayed from time to time, and stores them
// at its end.
func TestCapturer_Repair_afterLongOutage(t *testing.T) {
	t.Parallel()
	inOutage(t, 1, time.Hour, errUnavailable, func(t *testing.T, o *outage) {
		require.NoError(t, o.history.Settle(t.Context(), "s0"))

		for range 80 * 12 {
			o.sleep(5 * time.Second)
			o.exec(`UPDATE checkpoints SET lease_until = now() - interval '1 second'`) // the database has its own clock
			require.NoError(t, o.history.Repair(t.Context()))
			synctest.Wait()
			require.NotContains(t, o.states(), "failed")
		}

		require.Equal(t, []string{"captured"}, o.states())
		require.LessOrEqual(t, o.looks, 6, "looks at the files in an hour")
		require.LessOrEqual(t, o.stored.Sub(o.until), 2*time.Minute)
	})
}

// A process that ends does not wait for the end of an outage.
func TestCapturer_Drain_outage(t *testing.T) {
	t.Parallel()

	const sessions = 50 // more than a process keeps the files of

	inOutage(t, sessions, time.Hour, errUnavailable, func(t *testing.T, o *outage) {
		for i := range sessions {
			require.NoError(t, o.history.Settle(t.Context(), domain.SessionID(fmt.Sprint("s", i))))
		}

		o.sleep(time.Minute)

		start := time.Now()

		o.history.Drain(t.Context())
		require.Zero(t, time.Since(start))
		require.Equal(t, []string{"delayed"}, o.states(), "each is left to another process")
	})
}

// Nothing is stored for a session that was deleted during an outage.
func TestCapturer_sessionDeletedInAnOutage(t *testing.T) {
	t.Parallel()
	inOutage(t, 1, time.Minute, errUnavailable, func(t *testing.T, o *outage) {
		require.NoError(t, o.history.Settle(t.Context(), "s0"))
		o.sleep(10 * time.Second)
		o.exec(`UPDATE sessions SET deleted_at = now()`)

		tries := o.tries

		o.sleep(5 * time.Minute)
		require.Equal(t, tries, o.tries)
		require.Equal(t, []string{"delayed"}, o.states())
	})
}
