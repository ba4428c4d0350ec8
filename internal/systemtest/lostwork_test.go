package systemtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	domainoperator "everloop/domain/operator"
	"everloop/internal/durable"
	"everloop/service/work"
	"everloop/worker"
)

// hasty is how much faster the pauses of a check pass in tests that lose runs repeatedly.
const hasty = 100

// loseOpen terminates the open run of a workflow and reports whether there was one.
func (s *stack) loseOpen(workflowID string) bool {
	s.t.Helper()

	state, _, err := s.runs.Describe(s.t.Context(), workflowID, "")
	require.NoError(s.t, err)

	if state != domain.RunOpen {
		return false
	}

	require.NoError(s.t, s.client.TerminateWorkflow(s.t.Context(), workflowID, "", "terminated by the test"))

	return true
}

// loseUntil terminates each run of a workflow and checks its work until that has ended.
func (s *stack) loseUntil(workflowID string, check func(context.Context) error, over func() bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		if over() {
			return true
		}

		s.loseOpen(workflowID)
		require.NoError(s.t, check(s.t.Context()))

		return over()
	}, patience, 50*time.Millisecond, "the work did not end")
}

// lostFourTimes holds what was found of work of a kind that was given up.
func (s *stack) lostFourTimes(kind string) {
	s.t.Helper()

	count := map[string]int{}
	for _, finding := range s.findings() {
		count[finding]++
	}

	require.Equal(s.t, map[string]int{"lost_" + kind: 4, "failed_" + kind: 1}, count)
}

// exec changes what the database holds.
func (s *stack) exec(statement string, args ...any) {
	s.t.Helper()
	_, err := s.journal.Pool.Exec(s.t.Context(), statement, args...)
	require.NoError(s.t, err)
}

// compaction requests one and makes it look a minute old.
func (s *stack) compaction(session domain.SessionID) (id string) {
	s.t.Helper()
	id, err := s.compacting.Request(s.t.Context(), s.caller, session)
	require.NoError(s.t, err)
	s.exec(`UPDATE compactions SET created_at = now() - interval '1 minute' WHERE id = $1`, id)
	require.Eventually(s.t, func() bool {
		state, _, err := s.runs.Describe(s.t.Context(), durable.CompactionWorkflowID(id), "")
		return err == nil && state != domain.RunUnknown
	}, patience, 20*time.Millisecond, "its workflow was not started")

	return id
}

// compacted waits for the end of a compaction.
func (s *stack) compacted(id string) domain.CompactionResult {
	s.t.Helper()

	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()

	result, err := s.compacting.Await(ctx, s.caller, id)
	require.NoError(s.t, err)

	return result
}

func TestWorkChecker_Compactions(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.small(&domain.CompactionPolicy{Auto: true, ThresholdPct: 80, KeepLast: 2})

	for i := range 3 {
		s.talk(session, plain(i, 300))
	}

	s.worker.Stop() // a workflow is terminated before it did anything

	check := s.check(hasty, s.compactionKind())
	id := s.compaction(session)

	require.NoError(t, check(t.Context()))
	require.Empty(t, s.findings(), "its workflow is open")

	over := func() bool {
		var state string
		require.NoError(t, s.journal.Pool.QueryRow(t.Context(), `SELECT state FROM compactions WHERE id = $1`, id).Scan(&state))

		return state != "running"
	}
	s.loseUntil(durable.CompactionWorkflowID(id), check, over)

	result := s.compacted(id)
	require.Equal(t, domain.CompactionFailed, result.Status)
	require.Contains(t, result.Reason, "its run was lost 4 times: the run was closed: Terminated")
	s.lostFourTimes("compaction")

	// Another one is possible, and continues after its workflow was lost once.
	id = s.compaction(session)
	require.True(t, s.loseOpen(durable.CompactionWorkflowID(id)))
	require.NoError(t, check(t.Context()))
	s.startWorker()

	result = s.compacted(id)
	require.Equal(t, domain.CompactionCompleted, result.Status, result.Reason)
}

// brokenWorkflow is a deploy in which one workflow panics.
type brokenWorkflow struct {
	sdkworker.Worker
	name   string
	broken any
}

func (b brokenWorkflow) RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions) {
	if options.Name == b.name {
		w = b.broken
	}

	b.Worker.RegisterWorkflowWithOptions(w, options)
}

func TestWorkChecker_terminatesStuckRuns(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.impatient()

	session := s.small(&domain.CompactionPolicy{Auto: true, ThresholdPct: 80, KeepLast: 2})
	for i := range 3 {
		s.talk(session, plain(i, 300))
	}

	s.worker.Stop()
	s.worker = sdkworker.New(s.client, s.queue, sdkworker.Options{})
	worker.Register(brokenWorkflow{s.worker, contract.WorkflowCompact, func(workflow.Context, contract.CompactInput) (string, error) {
		panic("broken by a deploy")
	}}, s.acts)
	s.runner.Register(s.worker)
	require.NoError(t, s.worker.Start())

	check := s.check(hasty, s.compactionKind())
	id := s.compaction(session)

	require.Eventually(t, func() bool {
		require.NoError(t, check(t.Context()))
		return slices.Contains(s.findings(), "stuck_compaction")
	}, patience, 100*time.Millisecond)
	s.worker.Stop()
	s.startWorker()

	result := s.compacted(id)
	require.Equal(t, domain.CompactionCompleted, result.Status, result.Reason)
	require.Equal(t, []string{"stuck_compaction"}, s.findings())
}

func TestWorkChecker_Moves_givesUp(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	session, point := p.talked()
	p.worker.Stop()

	over := make(chan error, 1)
	rewind := func() {
		_, err := p.moves.Rewind(t.Context(), p.caller.User, session, point)
		over <- err
	}

	go rewind()

	var id string

	require.Eventually(t, func() bool {
		err := p.journal.Pool.QueryRow(t.Context(), `
			UPDATE history_operations SET created_at = now() - interval '1 minute' WHERE session_id = $1 RETURNING id`, session).Scan(&id)
		if err != nil {
			return false
		}

		state, _, err := p.runs.Describe(t.Context(), durable.HistoryWorkflowID(string(session), id), "")

		return err == nil && state == domain.RunOpen
	}, patience, 20*time.Millisecond, "its workflow was not started")

	p.loseUntil(durable.HistoryWorkflowID(string(session), id), p.check(hasty, work.Moves(p.runs, p.moves.Abort)), func() bool {
		_, done, _ := p.moves.HistoryResult(t.Context(), id)
		return done
	})

	err := <-over
	require.True(t, domain.HasCode(err, "history_not_changed"), "%v", err)
	require.ErrorContains(t, err, "its run was lost 4 times")
	require.Equal(t, "three", p.read(), "the session is as it was")
	p.lostFourTimes("history")

	p.startWorker()
	p.register()

	go rewind()

	require.NoError(t, <-over, "another move is possible")
	require.Equal(t, "two", p.read())
}

func TestWorkChecker_Imports_givesUp(t *testing.T) {
	t.Parallel()
	a := newAbroad(t)
	data := a.exported()
	before := a.traces()
	a.worker.Stop()

	id, over := a.load(data)

	require.Eventually(t, func() bool {
		state, _, err := a.runs.Describe(t.Context(), durable.ImportWorkflowID(string(id)), "")
		return err == nil && state == domain.RunOpen
	}, patience, 20*time.Millisecond, "its workflow was not started")
	a.exec(`UPDATE imports SET changed_at = now() - interval '1 minute' WHERE session_id = $1`, id)

	a.loseUntil(durable.ImportWorkflowID(string(id)), a.check(hasty, work.Imports(a.runs, a.transfers.Abort)), func() bool {
		_, done, _ := a.transfers.ImportResult(t.Context(), id)
		return done
	})

	err := (<-over).err
	require.True(t, domain.HasCode(err, "import_cancelled"), "%v", err)
	require.ErrorContains(t, err, "its run was lost 4 times")
	require.Equal(t, before, a.traces(), "nothing is left of it")
	a.lostFourTimes("import")

	a.startWorker()
	a.register()

	_, over = a.load(data)
	require.NoError(t, (<-over).err, "another import is possible")
}

// Runs of unattended work continue in a new workflow, and fail when that is lost again and
// again: what they have started is stopped, and others can start.
func TestWorkChecker_unattendedWork(t *testing.T) {
	t.Parallel()
	s := newOperated(t)

	for kind, of := range map[string]struct {
		begin func(file string) piece
		check func(context.Context) error
	}{
		domainoperator.RunKindIssue:    {s.issue, s.check(hasty, agentRuns(s.works.stack, s.engine, s.issues))},
		domainoperator.RunKindSchedule: {s.schedule, s.check(hasty, scheduledRuns(s.works.stack, s.engine, s.tasks))},
	} {
		t.Run(kind, func(t *testing.T) {
			file := strings.ReplaceAll(t.Name(), "/", "-")

			s.mu.Lock()
			s.found = nil
			s.mu.Unlock()

			work := of.begin(file)
			s.awaitText(work.session)
			s.backdate(work)
			s.loseUntil(work.workflow, of.check, func() bool {
				status, _, _ := work.state()
				return status == "failed"
			})

			_, code, message := work.state()
			require.Equal(t, "run_lost", code)
			require.Contains(t, message, "its run was lost 4 times: the run was closed: Terminated")
			s.lostFourTimes(kind)
			s.stopped(work)

			work = of.begin(file + "-again")
			s.awaitText(work.session)
			s.backdate(work)
			require.True(t, s.loseOpen(work.workflow))
			require.NoError(t, of.check(t.Context()))
			s.releaseUntil(func() bool { return s.anyChatEnded(work.session) })

			status, _, message := s.settled(work)
			require.Equal(t, "completed", status, message)
		})
	}
}
