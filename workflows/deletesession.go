package workflows

import (
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// DeleteSession removes what a deleted session held: what still runs in it, its files,
// objects and events, and then its rows.
func DeleteSession(ctx workflow.Context, in contract.DeleteSessionInput) error {
	workflow.SetCurrentDetails(ctx, "remove deleted session "+string(in.SessionID))

	if _, err := contract.EndSessionWork.Run(ctx, in, "End chats, tasks and tool servers"); err != nil {
		return err
	}

	if _, err := contract.RemoveSessionFiles.Run(ctx, in, "Remove files, objects and events"); err != nil {
		return err
	}

	_, err := contract.RemoveSessionRows.Run(ctx, in, "Remove rows")

	return err
}
