package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/contract"
)

// RegisterReplays binds the playing of replays to its name.
func RegisterReplays(w worker.Registry, replays *background.Replays) {
	contract.PlayReplay.Handle(w, replays.PlayReplay)
}
