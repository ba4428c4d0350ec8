package temporal

import (
	"context"

	"everloop/activities/contract"
	"everloop/internal/durable"
)

// StartTrigger starts the workflow of a delivery. An open one, which may have written the outcome
// before the delivery became due again, looks again before it closes.
func (r Runs) StartTrigger(ctx context.Context, triggerID, deliveryID string) error {
	return r.startOrSignal(ctx, run{
		id: durable.TriggerWorkflowID(triggerID, deliveryID), kind: "trigger", work: deliveryID, title: "Delivery of a trigger",
		workflow: contract.WorkflowTrigger, input: contract.TriggerInput{DeliveryID: deliveryID},
	}, contract.Wake.Name, struct{}{})
}
