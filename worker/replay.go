package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities"
	"everloop/activities/contract"
)

// RegisterReplays binds the playing of replays to its name.
func RegisterReplays(w worker.Registry, replays *activities.Replays) {
	contract.PlayReplay.Handle(w, replays.PlayReplay)
}
