package workflows

import (
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// IssueRun carries the work of an agent on an issue: it sends the issue to the agent's
// session, waits until the chat has ended and writes what it came to. Comments that came
// in the meantime are another message of the same run. The wait costs nothing and may last for
// weeks: the end of the chat has this run signalled. When the workflow is cancelled, it stops its
// chat first.
func IssueRun(ctx workflow.Context, in contract.IssueRunInput) error {
	workflow.SetCurrentDetails(ctx, "issue run "+in.RunID)

	steps, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()

	waits, stopped := ctx, false
	out, err := contract.BeginIssueRun.Run(steps, in, "Send the issue to the agent")
	worksIn(ctx, out.SessionID)

	for err == nil && !out.Ended {
		workflow.SetCurrentDetails(ctx, "issue run "+in.RunID+" waits for the end of its chat")

		if workflow.Await(waits, func() bool { return contract.ChatEnded.Waiting(ctx) }) != nil {
			waits, stopped = steps, true
			if _, err = contract.StopIssueRun.Run(steps, in, "Stop the chat of the run"); err != nil {
				break
			}
		}

		contract.ChatEnded.Drain(ctx)
		out, err = contract.EndIssueRun.Run(steps, in, "Write what the run came to")
	}

	if err == nil && stopped {
		return ctx.Err()
	}

	return err
}
