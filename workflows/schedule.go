package workflows

import (
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// tickPages bounds the pages of ticks that one run takes. What is left is found by the
// next one, or by the reconciler.
const tickPages = 500

// ScheduleTick records the ticks of a task that are due, and starts the runs of those
// that are to run. Mostly that is one tick; after an outage it is all that were due.
func ScheduleTick(ctx workflow.Context, in contract.ScheduleTickInput) error {
	workflow.SetCurrentDetails(ctx, "take due ticks of scheduled task "+in.TaskID)

	for range tickPages {
		out, err := contract.TakeTicks.Run(ctx, in, "Take due ticks")
		if err != nil || !out.More {
			return err
		}
	}

	return nil
}

// ScheduledRun carries one run of a scheduled task: it sends the prompt, waits until the
// chat has ended, checks the outcome that the task asks for, and writes the run's record. The wait costs nothing and may last for
// weeks: the end of the chat has this run signalled.
func ScheduledRun(ctx workflow.Context, in contract.ScheduledRunInput) error {
	workflow.SetCurrentDetails(ctx, "run "+in.RunID+" of a scheduled task")

	out, err := contract.BeginScheduledRun.Run(ctx, in, "Send the prompt")
	for err == nil && !out.Ended && !out.Check {
		workflow.SetCurrentDetails(ctx, "run "+in.RunID+" of a scheduled task waits for the end of its chat")
		contract.ChatEnded.Receive(ctx)
		contract.ChatEnded.Drain(ctx)
		out, err = contract.EndScheduledRun.Run(ctx, in, "Write the record of the run")
	}

	if err == nil && out.Check {
		workflow.SetCurrentDetails(ctx, "run "+in.RunID+" of a scheduled task checks its outcome")
		_, err = contract.CheckScheduledRun.Run(ctx, in, "Check files and commands")
	}

	return err
}
