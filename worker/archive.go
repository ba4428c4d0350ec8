package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities"
	"everloop/activities/contract"
)

// RegisterArchives binds the archiving of events to its name.
func RegisterArchives(w worker.Registry, archives *activities.Archives) {
	contract.ArchiveChats.Handle(w, archives.ArchiveChats)
}
