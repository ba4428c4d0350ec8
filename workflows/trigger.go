package workflows

import (
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// Trigger carries out one delivery of a trigger. It does not wait for the work that it starts:
// that work has its own workflow. A signal has it look again: the delivery was repeated by hand.
func Trigger(ctx workflow.Context, in contract.TriggerInput) error {
	workflow.SetCurrentDetails(ctx, "delivery "+in.DeliveryID+" of a trigger")

	due := workflow.GetSignalChannel(ctx, contract.Wake.Name)

	for {
		for due.ReceiveAsync(nil) { // the delivery is read after all of them
		}

		if _, err := contract.FireTrigger.Run(ctx, in, "Start the target of the trigger"); err != nil {
			return err
		}

		if due.Len() == 0 {
			return nil
		}
	}
}
