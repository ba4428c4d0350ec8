package background

import (
	"context"

	"everloop/activities/contract"
	"everloop/domain/transfer"
	"everloop/internal/durable"
)

// Archives archive the events of chats that ended.
type Archives struct {
	Pages ArchivePages
}

// ArchivePages archive chats page by page.
type ArchivePages interface {
	Page(ctx context.Context, after string) (transfer.ArchivedPage, error)
}

// ArchiveChats archives one page of chats.
func (a *Archives) ArchiveChats(ctx context.Context, in contract.ArchiveChatsIn) (transfer.ArchivedPage, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	return a.Pages.Page(ctx, in.After)
}
