package work_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"everloop/domain"
	"everloop/domain/operator"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/internal/testkit"
	"everloop/service/work"
)

// shop is one open compaction, with a checker whose clock the test moves. Its workflows
// have no worker.
type shop struct {
	t       *testing.T
	db      *postgres.Store
	session domain.SessionID
	client  client.Client
	runs    temporal.Runs
	queue   string
	id      string // of the compaction
	now     time.Time
	kind    work.Kind

	mu      sync.Mutex
	found   map[string]int
	started []string
	failed  []string
}

func newShop(t *testing.T) *shop {
	t.Helper()

	db, _, session, _ := pgtest.Running(t, pgtest.Open(t))
	c, err := temporal.Dial(t.Context(), testkit.Temporal(t), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(c.Close)

	s := &shop{
		t: t, db: db, session: session, client: c, queue: testkit.Prefix(t), id: domain.NewID(), now: time.Now(), found: map[string]int{},
	}
	s.runs = temporal.Runs{Client: c, Queue: s.queue, Namespace: testkit.Temporal(t).Namespace}
	s.kind = work.Kind{
		Name: operator.RunKindCompaction, Checked: true,
		Start: func(_ context.Context, item work.Item) error { s.started = append(s.started, item.ID); return nil },
		Fail: func(_ context.Context, item work.Item, reason string) error {
			s.failed = append(s.failed, item.ID+": "+reason)
			s.exec(`UPDATE compactions SET state = 'failed' WHERE id = $1`, item.ID)

			return nil
		},
	}
	s.exec(`
		INSERT INTO compactions (id, session_id, branch_id, loop_id, trigger, created_at)
		SELECT $1, id, active_branch_id, 'root', 'manual', now() - interval '1 minute' FROM sessions WHERE id = $2`, s.id, session)

	return s
}

func (s *shop) exec(statement string, args ...any) {
	s.t.Helper()
	_, err := s.db.Pool.Exec(s.t.Context(), statement, args...)
	require.NoError(s.t, err)
}

// checker returns a check of the kind.
func (s *shop) checker() func(ctx context.Context) error {
	return work.NewChecker(work.CheckerConfig{
		Store: work.NewStore(s.db.DB), Runs: s.runs, Kinds: []work.Kind{s.kind}, Logger: slog.New(slog.DiscardHandler),
		Found: func(kind string) { s.mu.Lock(); defer s.mu.Unlock(); s.found[kind]++ },
		Now:   func() time.Time { return s.now },
	}).Check
}

// pass checks as often as given, ten seconds apart.
func (s *shop) pass(times int, check func(context.Context) error) {
	s.t.Helper()

	for range times {
		require.NoError(s.t, check(s.t.Context()))

		s.now = s.now.Add(10 * time.Second)
	}
}

// open starts the workflow of the compaction; lose also closes it.
func (s *shop) open() {
	s.t.Helper()
	require.NoError(s.t, s.runs.StartCompaction(s.t.Context(), domain.CompactionRun{ID: s.id, SessionID: s.session, OwnerID: "o"}))
	s.t.Cleanup(func() {
		_ = s.runs.Terminate(context.Background(), durable.CompactionWorkflowID(s.id), "", "the test has ended")
	})
}

func (s *shop) lose() {
	s.t.Helper()
	s.open()
	require.NoError(s.t, s.runs.Terminate(s.t.Context(), durable.CompactionWorkflowID(s.id), "", "terminated by the test"))
}

func TestChecker_openWorkflow(t *testing.T) {
	t.Parallel()

	s := newShop(t)
	s.open()
	s.pass(5, s.checker())
	require.Empty(t, s.started)
	require.Empty(t, s.found)
}

// A workflow that is not started is started again after doubling pauses, without an end.
func TestChecker_unknownWorkflow(t *testing.T) {
	t.Parallel()

	s := newShop(t)
	check := s.checker()
	s.pass(1, check)
	require.Equal(t, []string{s.id}, s.started)
	require.Equal(t, map[string]int{"lost_compaction": 1}, s.found)

	s.pass(200, check)
	require.Greater(t, len(s.started), 8)
	require.LessOrEqual(t, len(s.started), 20)
	require.Empty(t, s.failed)
}

// A lost run is counted once, however often its restart fails.
func TestChecker_closedWorkflow(t *testing.T) {
	t.Parallel()

	s := newShop(t)
	s.lose()
	s.pass(50, s.checker())
	require.NotEmpty(t, s.started)
	require.Equal(t, map[string]int{"lost_compaction": 1}, s.found)
	require.Empty(t, s.failed)
}

func TestChecker_givesUpAfterThreeRestarts(t *testing.T) {
	t.Parallel()

	s := newShop(t)
	s.kind.Start = func(_ context.Context, item work.Item) error {
		s.started = append(s.started, item.ID)
		s.lose()

		return nil
	}
	s.lose()

	check := s.checker()
	for range 40 {
		s.pass(1, check)
	}

	require.Equal(t, []string{s.id + ": its run was lost 4 times: the run was closed: Terminated"}, s.failed)
	require.Len(t, s.started, 3)
	require.Equal(t, map[string]int{"lost_compaction": 4, "failed_compaction": 1}, s.found)
}

// A workflow cleans up after the failure of work whose kind requires it.
func TestChecker_startsACleaningWorkflow(t *testing.T) {
	t.Parallel()

	s := newShop(t)
	s.kind.Cleans = true
	s.exec(`INSERT INTO work_restarts (workflow_id, run_id, restarts) VALUES ($1, 'r', 3)`, durable.CompactionWorkflowID(s.id))
	s.lose()
	s.pass(1, s.checker())
	require.Len(t, s.failed, 1)
	require.Len(t, s.started, 1)
}

// Stalled work has its workflow look at it, also when the work has ended; nothing was lost.
func TestChecker_stalledWork(t *testing.T) {
	t.Parallel()

	for name, prepare := range map[string]func(s *shop){
		"open workflow": func(s *shop) { s.open() },
		"ended work": func(s *shop) {
			s.lose()
			s.exec(`UPDATE compactions SET state = 'failed' WHERE id = $1`, s.id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newShop(t)
			s.kind.Stalled = func(_ context.Context, after string, _ int) ([]string, error) {
				if after != "" {
					return nil, nil
				}

				return []string{s.id, "deleted in the meantime"}, nil
			}

			prepare(s)
			s.pass(1, s.checker())
			require.Equal(t, []string{s.id}, s.started)
			require.Empty(t, s.found)
		})
	}
}

// Work that cannot be restarted does not keep other work from its turn, nor does a kind
// that cannot be listed.
func TestChecker_faultsAreIsolated(t *testing.T) {
	t.Parallel()

	s := newShop(t)
	s.exec(`
		INSERT INTO compactions (id, session_id, branch_id, loop_id, trigger, created_at)
		SELECT 'faulty-' || n, id, active_branch_id, 'other', 'manual', now() - interval '1 minute'
		FROM   sessions, generate_series(1, 3) n WHERE sessions.id = $1`, s.session)

	s.kind.Start = func(_ context.Context, item work.Item) error {
		if item.ID != s.id {
			return fmt.Errorf("%s: %w", item.ID, errors.New("refused"))
		}

		s.mu.Lock()
		defer s.mu.Unlock()

		s.started = append(s.started, item.ID)

		return nil
	}
	s.kind.Stalled = func(context.Context, string, int) ([]string, error) { return nil, errors.New("the database is away") }

	err := s.checker()(t.Context())
	require.ErrorContains(t, err, "the database is away")
	require.ErrorContains(t, err, "faulty-3: refused")
	require.Equal(t, []string{s.id}, s.started)
}
