package recordings

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
)

const (
	// partAge is how long a running chat continues before its events so far are
	// archived, and then each time again: the event log keeps them for a day, and
	// fewer when it is full.
	partAge = time.Hour
	// partBytes bounds the events of one object, in bytes before compression.
	partBytes = 32 << 20
)

// errPartFull ends a part.
var errPartFull = errors.New("the part is full")

// maxFaults is how many errors of one pass are reported in full.
const maxFaults = 5

// ArchiveParts archives what running chats have said so far. Their end archives the
// rest; readers take all parts in order. A chat that cannot be archived, or has nothing
// new, keeps no other from it; a pass that is interrupted continues there in the next
// one. One goroutine calls it.
func (a *Service) ArchiveParts(ctx context.Context) error {
	var faults []error

	for more := true; more; {
		sessions, err := a.LongRunning(ctx, partAge, a.partsAfter, pageSize)
		if err != nil {
			return errors.Join(append(faults, err)...)
		}

		for _, session := range sessions {
			if err := a.archivePart(ctx, domain.SessionID(session)); err != nil && len(faults) < maxFaults {
				faults = append(faults, fmt.Errorf("archive a part of session %s: %w", session, err))
			}

			a.partsAfter = session

			if ctx.Err() != nil {
				return errors.Join(append(faults, ctx.Err())...)
			}
		}

		more = len(sessions) == pageSize
	}

	a.partsAfter = ""

	return errors.Join(faults...)
}

// archivePart writes the session's events that no object holds yet.
func (a *Service) archivePart(ctx context.Context, session domain.SessionID) error {
	from, err := a.end(ctx, session)
	if err != nil {
		return err
	}

	for more := true; more; {
		var made transfer.EventArchive
		if made, more, err = a.store(ctx, session, from); err != nil || made.Events == 0 {
			return err
		}

		if kept, err := a.KeepPart(ctx, made); err != nil || !kept {
			return err
		}

		from = made.UpToSeq
	}

	return nil
}

// archive writes all of the session's events that no object holds yet, and notes
// that the chat is archived.
func (a *Service) archive(ctx context.Context, chat transfer.UnarchivedChat) error {
	from, err := a.end(ctx, chat.SessionID)
	if err != nil {
		return err
	}

	for {
		made, more, err := a.store(ctx, chat.SessionID, from)
		if err != nil {
			return err
		}

		if !more {
			return a.KeepArchive(ctx, chat, made)
		}

		if kept, err := a.KeepPart(ctx, made); err != nil || !kept {
			return err
		}

		from = made.UpToSeq
	}
}

// store writes the session's events behind a sequence as one object, up to partBytes
// of them. more reports that there are others behind. Without events there is no object.
func (a *Service) store(ctx context.Context, session domain.SessionID, from uint64) (made transfer.EventArchive, more bool, err error) {
	made = transfer.EventArchive{
		SessionID: session, FromSeq: from, UpToSeq: from,
		Key: fmt.Sprintf("%s%020d-%s", Prefix(session), from, domain.NewID()),
	}

	packed, err := newPacker()
	if err != nil {
		return made, false, err
	}

	err = a.deps.Log.Read(ctx, session, from, math.MaxUint64, func(e domain.LoggedEvent) error {
		if packed.size >= partBytes {
			return errPartFull
		}

		made.UpToSeq = e.Seq

		return packed.add(e)
	})

	more = errors.Is(err, errPartFull)
	if err != nil && !more {
		return made, false, err
	}

	data, err := packed.bytes()
	if err != nil {
		return made, false, err
	}

	if made.Events = packed.count; made.Events > 0 {
		err = a.deps.Objects.Put(ctx, made.Key, data)
	}

	return made, more, err
}
