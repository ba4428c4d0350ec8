package temporal

import (
	"context"

	"everloop/activities/contract"
	"everloop/internal/durable"
)

// StartTrigger starts the workflow of a delivery unless it is open.
func (r Runs) StartTrigger(ctx context.Context, triggerID, deliveryID string) error {
	return r.start(ctx, run{
		id: durable.TriggerWorkflowID(triggerID, deliveryID), kind: "trigger", work: deliveryID, title: "Delivery of a trigger",
		workflow: contract.WorkflowTrigger, input: contract.TriggerInput{DeliveryID: deliveryID},
	})
}
