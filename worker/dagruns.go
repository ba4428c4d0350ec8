package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/contract"
)

// RegisterDAGRuns binds the steps of DAG runs to their names.
func RegisterDAGRuns(w worker.ActivityRegistry, runs *background.DAGRuns) {
	contract.AdvanceDAGRun.Handle(w, runs.Advance)
	contract.BeginDAGNode.Handle(w, runs.Begin)
	contract.StopDAGNode.Handle(w, runs.Stop)
}
