package workflows

import (
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// Trigger carries out one delivery of a trigger. It does not wait for the work that it starts:
// that work has its own workflow.
func Trigger(ctx workflow.Context, in contract.TriggerInput) error {
	workflow.SetCurrentDetails(ctx, "delivery "+in.DeliveryID+" of a trigger")
	_, err := contract.FireTrigger.Run(ctx, in, "Start the target of the trigger")

	return err
}
