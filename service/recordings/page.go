package recordings

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"everloop/domain"
	"everloop/domain/transfer"
)

// ArchiveDue starts the workflow that archives chats, when there is one to archive.
func (a *Service) ArchiveDue(ctx context.Context) error {
	chats, err := a.Unarchived(ctx, "", 1)
	if err != nil || len(chats) == 0 {
		return err
	}

	return a.deps.Runs.StartArchive(ctx)
}

const (
	pageSize     = 50 // chats of one page
	pageSessions = 4  // sessions of a page that are archived at a time
)

// Page archives the chats that ended after one, in the order of their ids, at most
// a page of them. A chat that cannot be archived is left for later and does not
// keep the others from it. Page may be broken off and run again.
func (a *Service) Page(ctx context.Context, after string) (transfer.ArchivedPage, error) {
	chats, err := a.Unarchived(ctx, after, pageSize)

	page := transfer.ArchivedPage{After: after, More: len(chats) == pageSize}
	if err != nil || len(chats) == 0 {
		return page, err
	}

	page.After = string(chats[len(chats)-1].ChatID)

	sessions := map[domain.SessionID][]transfer.UnarchivedChat{}
	for _, chat := range chats {
		sessions[chat.SessionID] = append(sessions[chat.SessionID], chat)
	}

	var (
		failed atomic.Int32
		group  errgroup.Group
	)
	group.SetLimit(pageSessions)

	for _, ended := range sessions { // those of one session one after another
		group.Go(func() error {
			for _, chat := range ended {
				ok, err := a.try(ctx, chat)
				if err != nil {
					return err
				}

				if !ok {
					failed.Add(1)
				}
			}

			return nil
		})
	}

	err = group.Wait()
	page.Failed = int(failed.Load())
	page.Archived = len(chats) - page.Failed

	return page, err
}

// try archives one chat, or leaves it for later. An error reports that not even that
// could be done.
func (a *Service) try(ctx context.Context, chat transfer.UnarchivedChat) (ok bool, err error) {
	if err = a.archive(ctx, chat); err == nil {
		return true, nil
	}

	if ctx.Err() != nil {
		return false, ctx.Err()
	}

	a.deps.Logger.Warn("failed to archive a chat; it will be retried", "session_id", chat.SessionID, "chat_id", chat.ChatID, "error", err)

	return false, a.PostponeArchive(ctx, chat)
}
