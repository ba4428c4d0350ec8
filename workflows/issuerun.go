package workflows

import (
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// IssueRun carries the work of an agent on an issue: it sends the issue to the agent's
// session, waits until the chat has ended and writes what it came to. Comments that came
// in the meantime are another message of the same run. The wait costs nothing and may last for
// weeks: the end of the chat has this run signalled.
func IssueRun(ctx workflow.Context, in contract.IssueRunInput) error {
	workflow.SetCurrentDetails(ctx, "issue run "+in.RunID)

	out, err := contract.BeginIssueRun.Run(ctx, in, "Send the issue to the agent")
	worksIn(ctx, out.SessionID)

	for err == nil && !out.Ended {
		workflow.SetCurrentDetails(ctx, "issue run "+in.RunID+" waits for the end of its chat")
		contract.ChatEnded.Receive(ctx)
		contract.ChatEnded.Drain(ctx)
		out, err = contract.EndIssueRun.Run(ctx, in, "Write what the run came to")
	}

	return err
}
