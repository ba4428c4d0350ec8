package work

import (
	"context"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/domain/operator"
	"everloop/domain/transfer"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/service/dagruns"
	"everloop/service/triggers"
)

// Item is one piece of work of a kind.
type Item struct {
	ID string
	operator.Job
}

// Kind is one kind of work that workflows carry: one row of the table of open work. The
// checker starts and ends its open work, and administrators cancel, fail and resume it.
// What of its work is open is one query of queries.go.
type Kind struct {
	Name string // operator.RunKind…

	// Checked has the checker look for open work that lost its workflow.
	Checked bool
	// Stalled lists the ids of work that should have moved, and that Start makes an open
	// workflow look at. The checker looks at it first, and at few of the other open work.
	// Nil: all open work is looked at alike.
	Stalled func(ctx context.Context, after string, limit int) ([]string, error)

	// Start starts the workflow unless it is open; nil: work that lost it cannot continue.
	Start func(ctx context.Context, item Item) error
	// Cancel ends the work as its owner would; nil: its workflow is cancelled.
	Cancel func(ctx context.Context, item Item) error
	// Fail ends the work as failed; nil: it is never given up.
	Fail func(ctx context.Context, item Item, reason string) error
	// Terminable work fails when an operator terminated its workflow; other work continues in
	// a new one.
	Terminable bool
	// Cleans reports that a workflow is started after Fail: it stops what the work has started.
	Cleans bool
}

// byName returns the kinds by their names.
func byName(kinds []Kind) map[string]Kind {
	named := make(map[string]Kind, len(kinds))
	for _, kind := range kinds {
		named[kind.Name] = kind
	}

	return named
}

// Chats returns the chats of sessions. The Reconciler checks them.
func Chats(runs temporal.Runs, session func(ctx context.Context, ownerID string, id domain.SessionID) (domain.SessionRun, error)) Kind {
	return Kind{Name: operator.RunKindChat, Start: func(ctx context.Context, item Item) error {
		run, err := session(ctx, "", domain.SessionID(item.ID))
		if err != nil {
			return err
		}

		return runs.Wake(ctx, run)
	}}
}

// TaskEnds end background tasks.
type TaskEnds struct {
	Stop      func(ctx context.Context, sessionID domain.SessionID, taskID string) (domain.BackgroundTask, error)
	MarkLost  func(ctx context.Context, taskID, reason string) (domain.TaskStatus, error)
	LoseAgent func(ctx context.Context, loopID, reason string) error
}

// BackgroundTasks are background commands and sub-agents. Their service repairs them by
// their leases.
func BackgroundTasks(ends TaskEnds) Kind {
	return Kind{
		Name: operator.RunKindTask,
		Cancel: func(ctx context.Context, item Item) error {
			_, err := ends.Stop(ctx, item.SessionID, item.ID)
			return err
		},
		Fail: func(ctx context.Context, item Item, reason string) error {
			if item.Detail != "" {
				return ends.LoseAgent(ctx, item.Detail, reason)
			}

			_, err := ends.MarkLost(ctx, item.ID, reason)

			return err
		},
	}
}

// Compactions returns the compactions that clients have requested.
func Compactions(store *Store, runs temporal.Runs) Kind {
	fail := func(ctx context.Context, item Item, reason string) error {
		return store.endCompaction(ctx, item.ID, reason)
	}

	return Kind{
		Name: operator.RunKindCompaction, Checked: true, Fail: fail,
		Start: func(ctx context.Context, item Item) error {
			return runs.StartCompaction(ctx, domain.CompactionRun{ID: item.ID, SessionID: item.SessionID, OwnerID: item.OwnerID})
		},
		Cancel: func(ctx context.Context, item Item) error {
			const reason = "cancelled by an administrator"
			if err := fail(ctx, item, reason); err != nil {
				return err
			}

			return runs.Terminate(ctx, item.WorkflowID, "", reason)
		},
	}
}

// Replays returns the playbacks of replay sessions. Their service repairs them.
func Replays(runs temporal.Runs) Kind {
	return Kind{Name: operator.RunKindReplay, Start: func(ctx context.Context, item Item) error {
		return runs.StartReplay(ctx, domain.SessionID(item.ID), item.OwnerID)
	}}
}

// Moves are rewinds, changes of branch and what-ifs. Abort leaves the session as it was,
// files included.
func Moves(runs temporal.Runs, abort func(ctx context.Context, operationID, reason string) (history.State, error)) Kind {
	return Kind{
		Name: operator.RunKindHistory, Checked: true,
		Start: func(ctx context.Context, item Item) error {
			return runs.StartMove(ctx, history.Operation{
				ID: item.ID, SessionID: item.SessionID, OwnerID: item.OwnerID, Kind: domain.HistoryOperationKind(item.Detail),
			})
		},
		Fail: func(ctx context.Context, item Item, reason string) error {
			_, err := abort(ctx, item.ID, reason)
			return err
		},
	}
}

// Imports are imports of sessions. Abort removes everything of one.
func Imports(runs temporal.Runs, abort func(ctx context.Context, id domain.SessionID, reason string) error) Kind {
	return Kind{
		Name: operator.RunKindImport, Checked: true,
		Start: func(ctx context.Context, item Item) error {
			return runs.StartImport(ctx, transfer.Import{SessionID: domain.SessionID(item.ID), OwnerID: item.OwnerID})
		},
		Fail: func(ctx context.Context, item Item, reason string) error {
			return abort(ctx, domain.SessionID(item.ID), reason)
		},
	}
}

// DeletedSessions returns the removals of deleted sessions, which are never given up.
func DeletedSessions(runs temporal.Runs) Kind {
	return Kind{Name: operator.RunKindDeletion, Checked: true, Start: func(ctx context.Context, item Item) error {
		return runs.StartDeletion(ctx, domain.DeletedSession{SessionID: domain.SessionID(item.ID), OwnerID: item.OwnerID})
	}}
}

// ArchivedEvents returns the archives of the events of ended chats. Their service repairs them.
func ArchivedEvents(runs temporal.Runs) Kind {
	return Kind{Name: operator.RunKindArchive, Start: func(ctx context.Context, _ Item) error { return runs.StartArchive(ctx) }}
}

// UnattendedRuns end runs of unattended work, with the chats that they have started.
type UnattendedRuns struct {
	Stalled func(ctx context.Context, after string, limit int) ([]string, error)
	Cancel  func(ctx context.Context, runID string) (open bool, err error)
	Fail    func(ctx context.Context, runID, code, message string) error
}

func (u UnattendedRuns) kind(name string, start func(ctx context.Context, item Item) error) Kind {
	return Kind{
		Name: name, Checked: true, Stalled: u.Stalled, Start: start,
		Cancel: func(ctx context.Context, item Item) error { // its workflow reads the record
			if _, err := u.Cancel(ctx, item.ID); err != nil {
				return err
			}

			return start(ctx, item)
		},
		Fail: func(ctx context.Context, item Item, reason string) error {
			return u.Fail(ctx, item.ID, domain.CodeRunLost, reason)
		},
	}
}

// ScheduledRuns returns the runs of scheduled tasks.
func ScheduledRuns(runs temporal.Runs, of UnattendedRuns) Kind {
	return of.kind(operator.RunKindSchedule, func(ctx context.Context, item Item) error { return runs.ResumeScheduledRun(ctx, item.ID) })
}

// AgentRuns returns the runs of agents on issues.
func AgentRuns(runs temporal.Runs, of UnattendedRuns) Kind {
	return of.kind(operator.RunKindIssue, func(ctx context.Context, item Item) error { return runs.ResumeIssueRun(ctx, item.ID) })
}

// TriggerDeliveries returns the deliveries of triggers that have no outcome.
func TriggerDeliveries(of *triggers.Service) Kind {
	return Kind{
		Name: operator.RunKindTrigger, Checked: true,
		Start: func(ctx context.Context, item Item) error { return of.StartDelivery(ctx, item.PartOf, item.ID) },
		Fail:  func(ctx context.Context, item Item, reason string) error { return of.Fail(ctx, item.ID, reason) },
	}
}

// DAGRuns returns the runs of DAGs. Their workflows decide; a run whose workflow was terminated
// fails, and a new one stops the work of its nodes.
func DAGRuns(runs *dagruns.Service) Kind {
	start := func(ctx context.Context, item Item) error {
		return runs.Restart(ctx, durable.SolutionOfDAGRun(item.WorkflowID), item.ID)
	}

	return Kind{
		Name: operator.RunKindDAG, Checked: true, Stalled: runs.StalledDAGRuns, Start: start, Terminable: true, Cleans: true,
		Cancel: func(ctx context.Context, item Item) error {
			return runs.CancelAny(ctx, durable.SolutionOfDAGRun(item.WorkflowID), item.ID)
		},
		Fail: func(ctx context.Context, item Item, reason string) error {
			_, err := runs.FailDAGRun(ctx, item.ID, domain.CodeRunLost, reason)
			return err
		},
	}
}
