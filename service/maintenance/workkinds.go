package maintenance

import (
	"context"
	"time"

	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/domain/history"
	"everloop/domain/operator"
	"everloop/domain/transfer"
	"everloop/internal/durable"
)

// lostAfter is how long the start of a workflow may take before it is looked for.
const lostAfter = 5 * time.Second

func itself(id string) string { return id }

// CompactionStore keeps the compactions that clients have asked for.
type CompactionStore interface {
	LostCompactions(ctx context.Context, after string, limit int) ([]domain.CompactionRun, error)
	EndCompaction(ctx context.Context, id, reason string) (bool, error)
}

// CompactionRuns starts compactions; starting one that runs changes nothing.
type CompactionRuns interface {
	StartCompaction(ctx context.Context, run domain.CompactionRun) error
}

// Compactions checks compactions that clients have asked for.
func (c *WorkChecker) Compactions(store CompactionStore, runs CompactionRuns) func(ctx context.Context) error {
	return checkWork(c, work[domain.CompactionRun]{
		kind: operator.RunKindCompaction, list: store.LostCompactions, start: runs.StartCompaction,
		id:         func(run domain.CompactionRun) string { return run.ID },
		workflowID: func(run domain.CompactionRun) string { return durable.CompactionWorkflowID(run.ID) },
		fail: func(ctx context.Context, run domain.CompactionRun, reason string) error {
			_, err := store.EndCompaction(ctx, run.ID, reason)
			return err
		},
	})
}

// MoveStore keeps rewinds, changes of branch and what-ifs.
type MoveStore interface {
	LostHistory(ctx context.Context, age time.Duration, after string, limit int) ([]history.Operation, error)
}

// MoveRuns starts moves; starting one that runs changes nothing.
type MoveRuns interface {
	StartMove(ctx context.Context, op history.Operation) error
}

// Moves leaves sessions as they were, files included.
type Moves interface {
	Abort(ctx context.Context, operationID, reason string) (history.State, error)
}

// Moves checks rewinds, changes of branch and what-ifs. One that is given up leaves the
// session as it was.
func (c *WorkChecker) Moves(store MoveStore, runs MoveRuns, moves Moves) func(ctx context.Context) error {
	return checkWork(c, work[history.Operation]{
		kind: operator.RunKindHistory, start: runs.StartMove,
		list: func(ctx context.Context, after string, limit int) ([]history.Operation, error) {
			return store.LostHistory(ctx, lostAfter, after, limit)
		},
		id:         func(op history.Operation) string { return op.ID },
		workflowID: func(op history.Operation) string { return durable.HistoryWorkflowID(string(op.SessionID), op.ID) },
		fail: func(ctx context.Context, op history.Operation, reason string) error {
			_, err := moves.Abort(ctx, op.ID, reason)
			return err
		},
	})
}

// ImportStore keeps imports of sessions.
type ImportStore interface {
	LostImports(ctx context.Context, age time.Duration, after string, limit int) ([]transfer.Import, error)
}

// ImportRuns starts imports; starting one that runs changes nothing.
type ImportRuns interface {
	StartImport(ctx context.Context, in transfer.Import) error
}

// Imports ends imports, of which nothing is left.
type Imports interface {
	Abort(ctx context.Context, sessionID domain.SessionID, reason string) error
}

// Imports checks imports of sessions.
func (c *WorkChecker) Imports(store ImportStore, runs ImportRuns, imports Imports) func(ctx context.Context) error {
	return checkWork(c, work[transfer.Import]{
		kind: operator.RunKindImport, start: runs.StartImport,
		list: func(ctx context.Context, after string, limit int) ([]transfer.Import, error) {
			return store.LostImports(ctx, lostAfter, after, limit)
		},
		id:         func(in transfer.Import) string { return string(in.SessionID) },
		workflowID: func(in transfer.Import) string { return durable.ImportWorkflowID(string(in.SessionID)) },
		fail: func(ctx context.Context, in transfer.Import, reason string) error {
			return imports.Abort(ctx, in.SessionID, reason)
		},
	})
}

// DeletionStore keeps which sessions are deleted.
type DeletionStore interface {
	DeletedSessions(ctx context.Context, age time.Duration, after string, limit int) ([]domain.DeletedSession, error)
}

// Deletions checks the removal of deleted sessions, which is never given up.
func (c *WorkChecker) Deletions(store DeletionStore, runs DeletionRuns) func(ctx context.Context) error {
	return checkWork(c, work[domain.DeletedSession]{
		kind: operator.RunKindDeletion, start: runs.StartDeletion,
		list: func(ctx context.Context, after string, limit int) ([]domain.DeletedSession, error) {
			return store.DeletedSessions(ctx, startAge, after, limit)
		},
		id:         func(s domain.DeletedSession) string { return string(s.SessionID) },
		workflowID: func(s domain.DeletedSession) string { return durable.DeletionWorkflowID(string(s.SessionID)) },
	})
}

// DAGRunStore keeps the runs of DAGs.
type DAGRunStore interface {
	// StalledDAGRuns lists those that should have moved, OpenDAGRuns all that are not over.
	StalledDAGRuns(ctx context.Context, after string, limit int) ([]dagrun.Ref, error)
	OpenDAGRuns(ctx context.Context, after string, limit int) ([]dagrun.Ref, error)
	FailDAGRun(ctx context.Context, runID, code, message string) (bool, error)
}

// DAGRunWorkflows reaches the workflows of DAG runs.
type DAGRunWorkflows interface {
	StartDAGRun(ctx context.Context, solutionID, runID string) error
	ResumeDAGRun(ctx context.Context, solutionID, runID string) error
}

// DAGRuns checks runs of DAGs that should have moved; with waiting, all that are open.
func (c *WorkChecker) DAGRuns(store DAGRunStore, runs DAGRunWorkflows, waiting bool) func(ctx context.Context) error {
	w := work[dagrun.Ref]{
		kind: operator.RunKindDAG, list: store.StalledDAGRuns, signalled: true,
		id:         func(r dagrun.Ref) string { return r.RunID },
		workflowID: func(r dagrun.Ref) string { return durable.DAGRunWorkflowID(r.SolutionID, r.RunID) },
		start:      func(ctx context.Context, r dagrun.Ref) error { return runs.ResumeDAGRun(ctx, r.SolutionID, r.RunID) },
		fail: func(ctx context.Context, r dagrun.Ref, reason string) error {
			if _, err := store.FailDAGRun(ctx, r.RunID, domain.CodeRunLost, reason); err != nil {
				return err
			}

			return runs.StartDAGRun(ctx, r.SolutionID, r.RunID) // it stops what nodes have begun
		},
	}
	if waiting {
		w.list, w.signalled, w.most = store.OpenDAGRuns, false, maxIdleLooks
	}

	return checkWork(c, w)
}

// OpenIssueRunStore keeps the runs of agents on issues.
type OpenIssueRunStore interface {
	// StalledIssueRuns lists those that should have moved, OpenIssueRuns all that have begun.
	StalledIssueRuns(ctx context.Context, after string, limit int) ([]string, error)
	OpenIssueRuns(ctx context.Context, after string, limit int) ([]string, error)
}

// IssueWorkflows reaches the workflows of issue runs.
type IssueWorkflows interface {
	ResumeIssueRun(ctx context.Context, runID string) error
}

// RunFailer ends a run as failed, with the chat that it has begun.
type RunFailer interface {
	FailRun(ctx context.Context, runID, code, message string) error
}

// IssueRuns checks runs of agents on issues that should have moved; with waiting, all
// that have begun.
func (c *WorkChecker) IssueRuns(
	store OpenIssueRunStore, runs IssueWorkflows, board RunFailer, waiting bool,
) func(ctx context.Context) error {
	w := work[string]{
		kind: operator.RunKindIssue, list: store.StalledIssueRuns, id: itself, workflowID: durable.IssueRunWorkflowID,
		start: runs.ResumeIssueRun, signalled: true, fail: failRun(board),
	}
	if waiting {
		w.list, w.signalled, w.most = store.OpenIssueRuns, false, maxIdleLooks
	}

	return checkWork(c, w)
}

func failRun(of RunFailer) func(ctx context.Context, runID, reason string) error {
	return func(ctx context.Context, runID, reason string) error {
		return of.FailRun(ctx, runID, domain.CodeRunLost, reason)
	}
}

// ScheduledRunStore keeps the runs of scheduled tasks.
type ScheduledRunStore interface {
	// StalledRuns lists those that should have moved, OpenScheduledRuns all that have begun.
	StalledRuns(ctx context.Context, after string, limit int) ([]string, error)
	OpenScheduledRuns(ctx context.Context, after string, limit int) ([]string, error)
}

// ScheduledWorkflows reaches the workflows of scheduled runs.
type ScheduledWorkflows interface {
	ResumeScheduledRun(ctx context.Context, runID string) error
}

// ScheduledRuns checks runs of scheduled tasks that should have moved; with waiting, all
// that have begun.
func (c *WorkChecker) ScheduledRuns(
	store ScheduledRunStore, runs ScheduledWorkflows, tasks RunFailer, waiting bool,
) func(ctx context.Context) error {
	w := work[string]{
		kind: operator.RunKindSchedule, list: store.StalledRuns, id: itself, workflowID: durable.ScheduledRunWorkflowID,
		start: runs.ResumeScheduledRun, signalled: true, fail: failRun(tasks),
	}
	if waiting {
		w.list, w.signalled, w.most = store.OpenScheduledRuns, false, maxIdleLooks
	}

	return checkWork(c, w)
}
