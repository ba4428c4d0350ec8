package app

import (
	"everloop/infra/temporal"
	"everloop/service/dagruns"
	"everloop/service/schedules"
	"everloop/service/work"
)

// workKinds returns the table of the work that workflows carry.
func (b *backend) workKinds(scheduled *schedules.Service, dags *dagruns.Service) []work.Kind {
	return []work.Kind{
		work.Chats(b.Runs, b.DB.SessionRun),
		work.BackgroundTasks(work.TaskEnds{Stop: b.tasks.Stop, MarkLost: b.tasks.MarkTaskLost, LoseAgent: b.tasks.LoseAgent}),
		work.Compactions(work.NewStore(b.DB.DB), b.Runs),
		work.Replays(b.Runs),
		work.Moves(b.Runs, b.history.Abort),
		work.Imports(b.Runs, b.transfers.Abort),
		work.DeletedSessions(b.Runs),
		work.ArchivedEvents(b.Runs),
		work.ScheduledRuns(b.Runs, work.UnattendedRuns{
			Stalled: b.DB.StalledRuns, Cancel: scheduled.CancelRun, Fail: scheduled.FailRun,
		}),
		work.AgentRuns(b.Runs, work.UnattendedRuns{
			Stalled: b.board.StalledIssueRuns, Cancel: b.board.CancelAnyRun, Fail: b.board.FailRun,
		}),
		work.TriggerDeliveries(b.triggers),
		work.DAGRuns(dags),
	}
}

// newOperator builds the service that shows administrators all runs.
func (b *backend) newOperator(scheduled *schedules.Service, dags *dagruns.Service) *work.Operator {
	engine := temporal.Operator{Client: b.Temporal, Chats: b.chats, Marks: b.DB}
	return work.NewOperator(work.NewStore(b.DB.DB), b.Runs, engine, b.workKinds(scheduled, dags))
}
