package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// Replay plays the recorded events of another session as this one's own. How far
// it has come is in the store; the run only makes it continue.
func Replay(ctx workflow.Context, in contract.ReplayInput) error {
	workflow.SetCurrentDetails(ctx, "replay session "+string(in.SessionID))

	for {
		contract.Wake.Drain(ctx) // what it says is looked at now

		out, err := contract.PlayReplay.Run(ctx, contract.PlayReplayIn(in), "Play")
		if err != nil {
			return err
		}

		workflow.SetCurrentDetails(ctx, fmt.Sprintf("replay session %s: %s at %d of %d", in.SessionID, out.Status, out.Position, out.Total))

		if !out.Again && !contract.Wake.Waiting(ctx) {
			return nil
		}
	}
}
