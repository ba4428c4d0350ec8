package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/domain/operator"
	"everloop/internal/durable"
	"everloop/service/maintenance"
)

// shop is work of some kinds with its workflows, in memory.
type shop struct {
	mu    sync.Mutex
	now   time.Time
	state domain.RunState
	run   int             // number of the newest run of each workflow
	over  map[string]bool // work that has ended since it was listed

	compactions []domain.CompactionRun
	deleted     []domain.DeletedSession
	dags        []dagrun.Ref
	away        map[string]bool // workflows that cannot be looked at

	looked, started, terminated, found map[string]int
	counted                            map[string][]string // by workflow, the runs
	failed                             []string
}

func newShop(state domain.RunState) *shop {
	return &shop{
		now: time.Now(), state: state, over: map[string]bool{}, away: map[string]bool{}, looked: map[string]int{},
		started: map[string]int{}, terminated: map[string]int{}, found: map[string]int{}, counted: map[string][]string{},
	}
}

func (s *shop) checker(t *testing.T) *maintenance.WorkChecker {
	t.Helper()

	c, err := maintenance.NewWorkChecker(maintenance.WorkCheckerConfig{
		Store: s, Runs: s, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.now },
		Found: func(kind string) { s.mu.Lock(); defer s.mu.Unlock(); s.found[kind]++ },
	})
	require.NoError(t, err)

	return c
}

// pass checks as often as given, ten seconds apart.
func (s *shop) pass(t *testing.T, times int, check func(context.Context) error) {
	t.Helper()

	for range times {
		require.NoError(t, check(t.Context()))

		s.now = s.now.Add(10 * time.Second)
	}
}

func (s *shop) note(counts map[string]int, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	counts[key]++

	return nil
}

func (s *shop) Jobs(_ context.Context, ids map[string][]string) (jobs []operator.Job, err error) {
	for _, of := range ids {
		for _, id := range of {
			jobs = append(jobs, operator.Job{Open: !s.over[id]})
		}
	}

	return jobs, nil
}

func (s *shop) CountWorkRestart(_ context.Context, workflowID, runID string) (int, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	seen := s.counted[workflowID]
	if len(seen) > 0 && seen[len(seen)-1] == runID {
		return len(seen), false, nil
	}

	s.counted[workflowID] = append(seen, runID)

	return len(seen) + 1, true, nil
}

func (s *shop) LookAtWork(_ context.Context, workflowID string) (domain.RunLook, error) {
	if s.away[workflowID] {
		return domain.RunLook{}, errors.New("Temporal is away")
	}

	look := domain.RunLook{State: s.state, RunID: fmt.Sprintf("%s run %d", workflowID, s.run), Cause: "because"}

	return look, s.note(s.looked, workflowID)
}

func (s *shop) Terminate(_ context.Context, workflowID, _, _ string) error {
	return s.note(s.terminated, workflowID)
}

func (s *shop) LostCompactions(_ context.Context, after string, limit int) ([]domain.CompactionRun, error) {
	return page(s.compactions, func(run domain.CompactionRun) string { return run.ID }, after, limit), nil
}

func (s *shop) EndCompaction(_ context.Context, id, reason string) (bool, error) {
	s.failed = append(s.failed, id+": "+reason)
	s.compactions = nil

	return true, nil
}

func (s *shop) StartCompaction(_ context.Context, run domain.CompactionRun) error {
	return s.note(s.started, run.ID)
}

func (s *shop) DeletedSessions(_ context.Context, _ time.Duration, after string, limit int) ([]domain.DeletedSession, error) {
	return page(s.deleted, func(d domain.DeletedSession) string { return string(d.SessionID) }, after, limit), nil
}

func (s *shop) StartDeletion(_ context.Context, d domain.DeletedSession) error {
	return s.note(s.started, string(d.SessionID))
}

func (s *shop) StalledDAGRuns(ctx context.Context, after string, limit int) ([]dagrun.Ref, error) {
	return s.OpenDAGRuns(ctx, after, limit)
}

func (s *shop) OpenDAGRuns(_ context.Context, after string, limit int) ([]dagrun.Ref, error) {
	return page(s.dags, func(r dagrun.Ref) string { return r.RunID }, after, limit), nil
}

func (s *shop) FailDAGRun(_ context.Context, id, code, message string) (bool, error) {
	s.failed = append(s.failed, id+": "+code+": "+message)
	s.over[id] = true

	return true, nil
}

func (s *shop) StartDAGRun(_ context.Context, _, id string) error { return s.note(s.started, id) }

func (s *shop) ResumeDAGRun(_ context.Context, _, id string) error { return s.note(s.started, id) }

func TestWorkChecker(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		state      domain.RunState
		over       bool
		passes     int
		started    int
		terminated int
		found      map[string]int
	}{
		"open":               {state: domain.RunOpen, passes: 10, found: map[string]int{}},
		"unknown":            {state: domain.RunUnknown, passes: 1, started: 1, found: map[string]int{"lost_compaction": 1}},
		"closed":             {state: domain.RunClosed, passes: 1, started: 1, found: map[string]int{"lost_compaction": 1}},
		"closed behind work": {state: domain.RunClosed, over: true, passes: 10, found: map[string]int{}},
		"stuck once":         {state: domain.RunStuck, passes: 1, found: map[string]int{}},
		"stuck twice": {
			state: domain.RunStuck, passes: 2, started: 1, terminated: 1, found: map[string]int{"stuck_compaction": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newShop(tc.state)
			s.compactions, s.over["k"] = []domain.CompactionRun{{ID: "k"}}, tc.over
			s.pass(t, tc.passes, s.checker(t).Compactions(s, s))
			require.Equal(t, tc.started, s.started["k"])
			require.Equal(t, tc.terminated, s.terminated[durable.CompactionWorkflowID("k")])
			require.Equal(t, tc.found, s.found)
			require.Empty(t, s.failed)
		})
	}
}

// A workflow that is not started is asked for again after doubling pauses, without an end.
func TestWorkChecker_unknown_doublesItsPauses(t *testing.T) {
	t.Parallel()

	s := newShop(domain.RunUnknown)
	s.compactions = []domain.CompactionRun{{ID: "k"}}
	s.pass(t, 360, s.checker(t).Compactions(s, s))
	require.Greater(t, s.started["k"], 10)
	require.LessOrEqual(t, s.started["k"], 25)
	require.Empty(t, s.failed)
}

func TestWorkChecker_givesUpAfterThreeRestarts(t *testing.T) {
	t.Parallel()

	s := newShop(domain.RunClosed)
	s.compactions = []domain.CompactionRun{{ID: "k"}}
	check := s.checker(t).Compactions(s, s)

	for len(s.failed) == 0 && s.run < 10 {
		before := s.started["k"]
		for range 40 { // until its pause is over
			if s.started["k"] > before || len(s.failed) > 0 {
				break
			}

			s.pass(t, 1, check)
		}

		s.run++
	}

	require.Equal(t, []string{"k: its run was lost 4 times: because"}, s.failed)
	require.Equal(t, 3, s.started["k"])
	require.Equal(t, map[string]int{"lost_compaction": 4, "failed_compaction": 1}, s.found)
}

// A run that was seen before is not counted again, however often its restart fails.
func TestWorkChecker_countsEachRunOnce(t *testing.T) {
	t.Parallel()

	s := newShop(domain.RunClosed)
	s.compactions = []domain.CompactionRun{{ID: "k"}}
	s.pass(t, 100, s.checker(t).Compactions(s, s))
	require.Equal(t, map[string]int{"lost_compaction": 1}, s.found)
	require.Empty(t, s.failed)
}

// Deletions are never given up. Many of them are looked at in turns, and one that cannot be
// looked at keeps no other from it.
func TestWorkChecker_Deletions(t *testing.T) {
	t.Parallel()

	s := newShop(domain.RunClosed)
	for i := range 1000 {
		s.deleted = append(s.deleted, domain.DeletedSession{SessionID: domain.SessionID(fmt.Sprintf("s%03d", i))})
	}

	s.away[durable.DeletionWorkflowID("s000")] = true
	check := s.checker(t).Deletions(s, s)
	require.Error(t, check(t.Context()))
	require.Len(t, s.started, 599, "three pages")

	s.now = s.now.Add(10 * time.Second)

	require.NoError(t, check(t.Context()))
	require.Len(t, s.started, 999)

	for range 20 {
		s.run++
		s.now = s.now.Add(10 * time.Minute)

		_ = check(t.Context())
		_ = check(t.Context())
	}

	require.Greater(t, s.started["s999"], 10)
}

// A DAG run that is over is listed while its nodes are to be stopped: its workflow is
// started, and nothing was lost.
func TestWorkChecker_DAGRuns(t *testing.T) {
	t.Parallel()

	for _, state := range []domain.RunState{domain.RunClosed, domain.RunOpen} {
		s := newShop(state)
		s.dags, s.over["d"] = []dagrun.Ref{{RunID: "d", SolutionID: "p"}}, true
		s.pass(t, 1, s.checker(t).DAGRuns(s, s, false))
		require.Equal(t, 1, s.started["d"], "signalled")
		require.Empty(t, s.found)
	}

	// Of runs that wait, a healthy one is left alone.
	s := newShop(domain.RunOpen)
	s.dags = []dagrun.Ref{{RunID: "d", SolutionID: "p"}}
	check := s.checker(t).DAGRuns(s, s, true)
	s.pass(t, 5, check)
	require.Empty(t, s.started)

	s.state = domain.RunClosed
	for s.run = range 6 {
		s.now = s.now.Add(time.Minute)
		s.pass(t, 1, check)
	}

	require.Equal(t, []string{"d: run_lost: its run was lost 4 times: because"}, s.failed)
	require.Equal(t, 1, s.found["failed_dag"])
}
