package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/contract"
)

// RegisterArchives binds the archiving of events to its name.
func RegisterArchives(w worker.Registry, archives *background.Archives) {
	contract.ArchiveChats.Handle(w, archives.ArchiveChats)
}
