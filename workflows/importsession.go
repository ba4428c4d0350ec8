package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/internal/durable"
)

// Import makes a session of an archive that was stored. The claim and the result are
// in the database. A run that is cancelled leaves nothing behind.
func Import(ctx workflow.Context, in contract.ImportInput) error {
	workflow.SetCurrentDetails(ctx, "import session "+string(in.SessionID))

	_, err := contract.LoadImport.Run(ctx, in, "Make the session from its archive")
	if err == nil || durable.Code(err) == contract.CodeImportGone {
		return nil
	}

	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()

	reason := "its run was cancelled"
	if !temporal.IsCanceledError(err) {
		reason = lostReason(err)
	}

	_, err = contract.AbortImport.Run(ctx, contract.AbortImportIn{SessionID: in.SessionID, Reason: reason}, "Leave nothing behind")
	if durable.Code(err) == contract.CodeImportGone {
		return nil
	}

	return err
}
