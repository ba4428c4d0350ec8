package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// Names of the workflow types of scheduled tasks, as operators see them.
const (
	WorkflowScheduleTick = "ScheduleTick"
	WorkflowScheduledRun = "ScheduledRun"
)

// ChatEnded reports to a run that waits for a chat that the chat has ended. It may come more
// than once: what has become of the chat is in the database.
var ChatEnded = durable.Signal[EndedChat]{Name: "chat_ended"}

// EndedChat names the chat; empty: any may have ended.
type EndedChat struct {
	ChatID domain.ChatID `json:"chat_id"`
}

// ScheduleTickInput names the task whose due ticks a run takes.
type ScheduleTickInput struct {
	TaskID string `json:"task_id"`
}

// ScheduledRunInput names the run of a scheduled task that a workflow carries.
type ScheduledRunInput struct {
	RunID string `json:"run_id"`
}

// Steps of scheduled tasks. Each may run again: the database says what is left to do.
var (
	TakeTicks         = durable.Activity[ScheduleTickInput, TakeTicksOut]{Name: "schedule.tick", Preset: durable.Store}
	BeginScheduledRun = durable.Activity[ScheduledRunInput, ScheduledRunOut]{Name: "schedule.begin", Preset: durable.Store}
	EndScheduledRun   = durable.Activity[ScheduledRunInput, ScheduledRunOut]{Name: "schedule.end", Preset: durable.Store}
)

// CheckScheduledRun checks the outcome of a run whose chat was completed, and writes the
// run's record.
var CheckScheduledRun = durable.Activity[ScheduledRunInput, ScheduledRunOut]{Name: "schedule.check", Preset: durable.Tool}

// TakeTicksOut says whether more ticks are due.
type TakeTicksOut struct {
	More bool `json:"more,omitempty"`
}

// ScheduledRunOut says whether the run is over, or its outcome has to be checked.
type ScheduledRunOut struct {
	Ended bool `json:"ended,omitempty"`
	Check bool `json:"check,omitempty"`
}
