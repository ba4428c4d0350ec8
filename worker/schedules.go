package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/contract"
)

// RegisterSchedules binds the steps of scheduled tasks to their names.
func RegisterSchedules(w worker.ActivityRegistry, schedules *background.Schedules) {
	contract.TakeTicks.Handle(w, schedules.TakeTicks)
	contract.BeginScheduledRun.Handle(w, schedules.BeginScheduledRun)
	contract.EndScheduledRun.Handle(w, schedules.EndScheduledRun)
	contract.CheckScheduledRun.Handle(w, schedules.CheckScheduledRun)
}
