package workflows

import (
	"strings"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/internal/durable"
)

// ScheduledRun carries one run of a scheduled task: it sends the prompt, waits until the
// chat has ended, checks the outcome that the task asks for, and writes the run's record. The wait costs
// nothing and may last for weeks: the end of the chat has this run signalled. Its Schedule waits for it, as
// far as the overlap policy asks for that, and cancels it for the next run; then it stops its chat first.
func ScheduledRun(ctx workflow.Context, in contract.ScheduledRunInput) error {
	info := workflow.GetInfo(ctx)
	begin := contract.BeginScheduledRunInput{RunID: in.RunID, Execution: info.FirstRunID, StartedAt: info.WorkflowStartTime, Resumed: true}

	if in.RunID == "" { // a Schedule has started it
		in.RunID = strings.TrimPrefix(info.WorkflowExecution.ID, durable.ScheduledRunWorkflowID(""))
		begin.RunID, begin.Resumed = in.RunID, false
	}

	workflow.SetCurrentDetails(ctx, "run "+in.RunID+" of a scheduled task")

	run := scheduledRun{in: in, cancelled: ctx.Done()}
	steps, _ := workflow.NewDisconnectedContext(ctx)

	out, err := contract.BeginScheduledRun.Run(steps, begin, "Send the prompt")
	worksIn(ctx, out.SessionID)

	for err == nil && !out.Ended && !out.Check {
		workflow.SetCurrentDetails(ctx, "run "+in.RunID+" of a scheduled task waits for the end of its chat")

		if err = run.awaitChat(steps); err == nil {
			out, err = contract.EndScheduledRun.Run(steps, in, "Write the record of the run")
		}
	}

	if err == nil && out.Check {
		workflow.SetCurrentDetails(ctx, "run "+in.RunID+" of a scheduled task checks its outcome")
		err = run.check(steps)
	}

	if err == nil && run.stopped {
		return ctx.Err()
	}

	return err
}

// scheduledRun is a run whose workflow may be cancelled. Its steps run nevertheless.
type scheduledRun struct {
	in        contract.ScheduledRunInput
	cancelled workflow.Channel
	stopped   bool
}

// awaitChat waits until the run must look at its chat. When it is cancelled it stops the chat.
func (r *scheduledRun) awaitChat(ctx workflow.Context) error {
	ended := workflow.GetSignalChannel(ctx, contract.ChatEnded.Name)
	err := r.await(ctx, func(s workflow.Selector) {
		s.AddReceive(ended, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) })
	})
	contract.ChatEnded.Drain(ctx)

	return err
}

// check checks the outcome. The checks end by themselves when the run is cancelled.
func (r *scheduledRun) check(ctx workflow.Context) error {
	checks := contract.CheckScheduledRun.Start(ctx, r.in, "Check files and commands")
	for !checks.IsReady() {
		if err := r.await(ctx, func(s workflow.Selector) { s.AddFuture(checks.Future, func(workflow.Future) {}) }); err != nil {
			return err
		}
	}

	_, err := checks.Get(ctx)

	return err
}

// await waits for what is added, or for the cancellation of the run, after which its chat is stopped.
func (r *scheduledRun) await(ctx workflow.Context, add func(workflow.Selector)) (err error) {
	s := workflow.NewSelector(ctx)
	add(s)

	if !r.stopped {
		s.AddReceive(r.cancelled, func(workflow.ReceiveChannel, bool) {
			r.stopped = true
			_, err = contract.StopScheduledRun.Run(ctx, r.in, "Stop the chat of the run")
		})
	}

	s.Select(ctx)

	return err
}
