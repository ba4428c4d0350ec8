package events

import (
	"context"
	"encoding/json"
	"slices"
)

// cursor iterates over the entries of one subject with after < seq <= upTo, in batches,
// generation by generation.
type cursor struct {
	log         *Log
	subject     string
	after, upTo uint64
	left        []generation // the current generation and the following ones
	batch       []message
}

// walk returns a cursor over the current generations.
func (l *Log) walk(ctx context.Context, subject string, after, upTo uint64) (cursor, error) {
	list, err := l.generations(ctx)
	return cursor{log: l, subject: subject, after: after, upTo: upTo, left: list}, err
}

// peek returns the next entry; nil: the end.
func (c *cursor) peek(ctx context.Context) (*message, error) {
	for len(c.batch) == 0 && len(c.left) > 0 && c.after < c.upTo {
		from, end := c.left[0], min(c.upTo, c.left[0].last)
		if c.after >= end {
			c.left = c.left[1:]
			continue
		}

		answer, err := c.log.direct(ctx, from, directRequest{
			Seq: c.after + 1, NextFor: c.subject, Batch: batchMessages, MaxBytes: batchBytes,
		})
		if err != nil {
			return nil, err
		}

		if len(answer.messages) == 0 {
			// A lagging replica also returns nothing.
			m, err := c.log.leader(ctx, from, leaderRequest{Seq: c.after + 1, NextFor: c.subject})
			if err != nil {
				return nil, err
			}

			if m != nil {
				answer.messages = []message{*m}
			}
		}

		c.add(answer.messages, end)
	}

	if len(c.batch) == 0 {
		return nil, nil
	}

	return &c.batch[0], nil
}

// add adds the messages up to end. Without messages the generation is finished.
func (c *cursor) add(messages []message, end uint64) {
	n := slices.IndexFunc(messages, func(m message) bool { return m.seq > end })
	last := n >= 0 || len(messages) == 0

	if n < 0 {
		n = len(messages)
	}

	if c.batch = messages[:n]; n > 0 {
		c.after = messages[n-1].seq
	}

	if last {
		c.left = c.left[1:]
	}
}

// take advances past the entry that peek returned.
func (c *cursor) take() { c.batch = c.batch[1:] }

// idOf decodes only the event id of an entry.
func idOf(body []byte) (string, error) {
	var r struct {
		ID string `json:"id"`
	}

	err := json.Unmarshal(body, &r)

	return r.ID, err
}
