package recordings

import (
	"context"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain/transfer"
	"everloop/internal/durable"
)

// Register binds the activity that archives chats to the service.
func (a *Service) Register(w worker.ActivityRegistry) {
	contract.ArchiveChats.Handle(w, func(ctx context.Context, in contract.ArchiveChatsIn) (transfer.ArchivedPage, error) {
		ctx, stop := durable.Heartbeat(ctx)
		defer stop()

		return a.Page(ctx, in.After)
	})
}
