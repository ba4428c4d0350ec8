package contract

import "everloop/internal/durable"

// WorkflowTrigger is the workflow type of deliveries of triggers, as operators see it.
const WorkflowTrigger = "Trigger"

// TriggerInput names the delivery that a workflow carries out.
type TriggerInput struct {
	DeliveryID string `json:"delivery_id"`
}

// FireTrigger carries out a delivery: it starts the work of the trigger's target, once for each
// attempt of the delivery, and writes the outcome. A repetition finds what was started.
var FireTrigger = durable.Activity[TriggerInput, struct{}]{Name: "trigger.fire", Preset: durable.Store}
