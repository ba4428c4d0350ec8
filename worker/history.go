package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/contract"
)

// RegisterHistories binds the operations on histories to their names.
func RegisterHistories(w worker.Registry, histories *background.Histories) {
	contract.MoveHistory.Handle(w, histories.MoveHistory)
	contract.AbortHistory.Handle(w, histories.AbortHistory)
}
