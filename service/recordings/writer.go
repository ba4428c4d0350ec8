package recordings

import (
	"context"

	"everloop/domain"
	"everloop/domain/transfer"
)

// Writer stores the events of a session that is being made, as objects of bounded
// size. One goroutine uses it.
type Writer struct {
	objects interface {
		Put(ctx context.Context, key string, data []byte) error
	}
	session domain.SessionID
	packed  *packer
	open    transfer.EventArchive // what packed holds
	made    []transfer.EventArchive
}

// NewWriter makes a Writer for a session of which nothing is archived.
func NewWriter(sessionID domain.SessionID, objects interface {
	Put(ctx context.Context, key string, data []byte) error
},
) *Writer {
	return &Writer{objects: objects, session: sessionID, open: transfer.EventArchive{SessionID: sessionID}}
}

// Add takes the next event, whose Seq is above that of the one before.
func (w *Writer) Add(ctx context.Context, e domain.LoggedEvent) error {
	if w.packed != nil && w.packed.size >= partBytes {
		if err := w.store(ctx); err != nil {
			return err
		}
	}

	if w.packed == nil {
		var err error
		if w.packed, err = newPacker(); err != nil {
			return err
		}
	}

	w.open.UpToSeq = e.Seq

	return w.packed.add(e)
}

// Close stores what is left and returns what holds the events.
func (w *Writer) Close(ctx context.Context) ([]transfer.EventArchive, error) {
	if w.packed == nil {
		return w.made, nil
	}

	err := w.store(ctx)

	return w.made, err
}

func (w *Writer) store(ctx context.Context) error {
	data, err := w.packed.bytes()
	if err != nil {
		return err
	}

	part := w.open

	part.Key, part.Events = Prefix(w.session)+domain.NewID(), w.packed.count
	if err := w.objects.Put(ctx, part.Key, data); err != nil {
		return err
	}

	w.made = append(w.made, part)
	w.packed, w.open = nil, transfer.EventArchive{SessionID: w.session, FromSeq: part.UpToSeq}

	return nil
}
