package app

import (
	"everloop/infra/temporal"
	"everloop/service/board"
	"everloop/service/chat"
	"everloop/service/operator"
	"everloop/service/schedules"
)

type workflowRuns = temporal.Runs

// engineRuns are the runs of the workflow engine, as administrators see and end them.
type engineRuns struct {
	workflowRuns
	temporal.Operator
}

// newOperator builds the service that shows administrators all runs.
func (b *backend) newOperator(chats *chat.Service, scheduled *schedules.Service, board *board.Service) (*operator.Service, error) {
	return operator.New(operator.Config{
		Engine: engineRuns{b.Runs, temporal.Operator{Client: b.Temporal, Chats: chats, Marks: b.DB}},
		Store:  b.store, Tasks: b.tasks, Schedules: scheduled, Board: board,
	})
}
