package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/contract"
)

// RegisterSchedules binds the steps of scheduled tasks to their names.
func RegisterSchedules(w worker.ActivityRegistry, schedules *background.Schedules) {
	contract.BeginScheduledRun.Handle(w, schedules.BeginScheduledRun)
	contract.StopScheduledRun.Handle(w, schedules.StopScheduledRun)
	contract.EndScheduledRun.Handle(w, schedules.EndScheduledRun)
	contract.CheckScheduledRun.Handle(w, schedules.CheckScheduledRun)
}
