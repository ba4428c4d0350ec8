package pg

import (
	"context"
	"errors"
	"time"

	"everloop/domain"
)

const (
	// eventTimeout bounds one try to publish one event.
	eventTimeout = 10 * time.Second
	// readTimeout bounds one look at the outbox.
	readTimeout = 10 * time.Second
	// knownFor is how long an event that may have been published is safe to publish
	// again by its id alone. The event log knows ids for two minutes; the rest is
	// for the last try and for clocks that differ.
	knownFor = 75 * time.Second
	// rowBatch is how many rows of a session are read at once.
	rowBatch = 64
)

// publishCopies publishes rows in their order, and returns those that are left when
// one fails.
func (o *Outbox) publishCopies(rows []outboxRow) (left []outboxRow, err error) {
	var before uint64
	for i, row := range rows {
		if before, err = o.publishRow(row, before); err != nil {
			return rows[i:], err
		}
	}

	return nil, nil
}

// publishRows publishes all rows of a session that the outbox has, in the order in
// which they were written.
func (o *Outbox) publishRows(session string) error {
	var before uint64

	for behind := int64(0); ; {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		rows, err := o.db.rowsOfSession(ctx, session, behind, rowBatch)

		cancel()

		if err != nil {
			return err
		}

		for _, row := range rows {
			behind = row.id
			if o.published.has(row.event.ID) {
				continue // published, and not noted in the row yet
			}

			if before, err = o.publishRow(row, before); err != nil {
				return err
			}
		}

		if len(rows) < rowBatch {
			return nil
		}
	}
}

// publishRow publishes one event. before is the place of the session's event before
// it, where that is known: the event cannot be in front of it.
func (o *Outbox) publishRow(row outboxRow, before uint64) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()

	switch {
	case row.maybe: // its place may be in front of events that do not wait for each other
		seq, err = o.log.Repeat(ctx, row.event, row.after)
	case time.Since(row.event.At) > knownFor:
		seq, err = o.log.Repeat(ctx, row.event, max(row.after, before))
	default:
		seq, err = o.log.Publish(ctx, row.event)
	}

	if unpublishable(err) {
		// Trying again cannot help, and the session's other events must not wait.
		o.logger.Error("failed to publish an event; it is left out", "event", row.event.Name,
			"session_id", row.event.SessionID, "event_id", row.event.ID, "error", err)
		seq, err = before, nil
	}

	if err != nil {
		return before, err
	}

	o.reach(seq)
	o.published.add(publishedRow{id: row.id, event: row.event.ID, seq: seq, at: time.Now()})

	return seq, nil
}

// unpublishable reports that an event itself is at fault.
func unpublishable(err error) bool {
	fault, ok := errors.AsType[*domain.Error](err)
	return ok && (fault.Kind == domain.Invalid || fault.Kind == domain.TooLarge)
}
