// Package archive keeps the events of sessions beyond the day for which the log
// has them: as objects, one for each stretch up to the end of a chat. It is where
// replays and exports read from. It knows events and objects, and not what an
// event means.
package archive

import (
	"context"
	"fmt"
	"log/slog"
	"math"

	"everloop/domain"
)

// Records say what is archived and what is not yet.
type Records interface {
	Unarchived(ctx context.Context, limit int) ([]domain.UnarchivedChat, error)
	Archived(ctx context.Context, sessionID string) ([]domain.EventArchive, error)
	KeepArchive(ctx context.Context, chat domain.UnarchivedChat, made domain.EventArchive) error
}

// Log is the event log.
type Log interface {
	Read(ctx context.Context, sessionID string, after, upTo uint64, fn func(domain.LoggedEvent) error) error
}

// Objects keep what is archived.
type Objects interface {
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
}

// Archive keeps events and gives them back.
type Archive struct {
	Records Records
	Log     Log
	Objects Objects
	Logger  *slog.Logger
}

// Prefix is where the archives of a session lie; whoever deletes the session
// deletes them.
func Prefix(sessionID string) string { return "archives/" + sessionID + "/" }

// sweepBatch is how many chats one sweep looks at.
const sweepBatch = 50

// Sweep archives chats that have ended. What a crash cuts short is found again
// by the rows of the chats; several processes may sweep at once. A chat that
// cannot be archived does not keep the others from it.
func (a *Archive) Sweep(ctx context.Context) error {
	chats, err := a.Records.Unarchived(ctx, sweepBatch)
	if err != nil {
		return err
	}
	for _, chat := range chats {
		if err := a.archive(ctx, chat); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			a.Logger.Warn("chat not archived yet", "session_id", chat.SessionID, "chat_id", chat.ChatID, "error", err)
		}
	}
	return nil
}

// archive writes all of the session's events that no object holds yet.
func (a *Archive) archive(ctx context.Context, chat domain.UnarchivedChat) error {
	from, err := a.end(ctx, chat.SessionID)
	if err != nil {
		return err
	}
	made := domain.EventArchive{
		SessionID: chat.SessionID, FromSeq: from, UpToSeq: from,
		Key: fmt.Sprintf("%s%020d-%s", Prefix(chat.SessionID), from, domain.NewID()),
	}
	packed, err := newPacker()
	if err != nil {
		return err
	}
	err = a.Log.Read(ctx, chat.SessionID, from, math.MaxUint64, func(e domain.LoggedEvent) error {
		made.UpToSeq = e.Seq
		return packed.add(e)
	})
	if err != nil {
		return err
	}
	data, err := packed.bytes()
	if err != nil {
		return err
	}
	if made.Events = packed.count; made.Events > 0 {
		if err := a.Objects.Put(ctx, made.Key, data); err != nil {
			return err
		}
	}
	return a.Records.KeepArchive(ctx, chat, made)
}

// end is the position up to which a session is archived.
func (a *Archive) end(ctx context.Context, sessionID string) (uint64, error) {
	list, err := a.Records.Archived(ctx, sessionID)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return list[len(list)-1].UpToSeq, nil
}

// Events yields all events of a session that are still to be had, in their
// order: what is archived, and then what the log has besides. There may be gaps
// where the log forgot what was never archived.
func (a *Archive) Events(ctx context.Context, sessionID string, yield func(domain.LoggedEvent) error) error {
	list, err := a.Records.Archived(ctx, sessionID)
	if err != nil {
		return err
	}
	end := uint64(0)
	for _, part := range list {
		data, err := a.Objects.Get(ctx, part.Key)
		if domain.AsError(err).Kind == domain.NotFound && err != nil {
			a.Logger.Warn("an archive of events is gone", "session_id", sessionID, "key", part.Key)
			continue
		}
		if err != nil {
			return err
		}
		if err := Unpack(data, yield); err != nil {
			return fmt.Errorf("archive %s: %w", part.Key, err)
		}
		end = part.UpToSeq
	}
	return a.Log.Read(ctx, sessionID, end, math.MaxUint64, yield)
}
