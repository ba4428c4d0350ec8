package worker

import (
	"context"

	"go.temporal.io/sdk/worker"

	"everloop/activities"
	"everloop/activities/compaction"
	"everloop/activities/contract"
)

// Chats are the activities of chats.
type Chats struct {
	*activities.Activities
	Compaction *compaction.Compactor
}

func (c Chats) register(w worker.Registry) {
	contract.BeginChat.Handle(w, c.BeginChat)
	contract.ParkChat.Handle(w, c.ParkChat)
	contract.CheckChat.Handle(w, c.CheckChat)
	contract.FinishChat.Handle(w, c.FinishChat)
	contract.CallModel.Handle(w, c.CallModel)
	contract.Transcribe.Handle(w, c.Transcribe)
	contract.CompactContext.Handle(w, c.Compaction.Compact)
	contract.FailCompaction.Handle(w, c.Compaction.Fail)
	contract.PauseFork.Handle(w, c.PauseFork)
	contract.EndFork.Handle(w, c.EndFork)
	contract.TryTool.Handle(w, c.TryTool)
	contract.RunTool.Handle(w, c.RunTool)
}

// Drain ends the tool calls that still run when the worker has stopped, and waits until
// their outcomes and all other work of chats are recorded, or ctx ends.
func (c Chats) Drain(ctx context.Context) {
	c.Activities.Drain(ctx)
	c.Compaction.Drain(ctx)
}
