package events

import (
	"context"
	"encoding/json"
)

// cursor walks the entries of one subject with after < seq <= upTo, in batches.
type cursor struct {
	log         *Log
	subject     string
	after, upTo uint64
	batch       []message
	done        bool
}

// peek is the next entry, nil at the end.
func (c *cursor) peek(ctx context.Context) (*message, error) {
	for len(c.batch) == 0 && !c.done && c.after < c.upTo {
		answer, err := c.log.direct(ctx, directRequest{
			Seq: c.after + 1, NextFor: c.subject, Batch: batchMessages, MaxBytes: batchBytes,
		})
		if err != nil {
			return nil, err
		}
		c.batch = answer.messages
		c.done = answer.pending == 0 || len(answer.messages) == 0
		for i, m := range c.batch {
			if m.seq > c.upTo {
				c.batch, c.done = c.batch[:i], true
				break
			}
		}
		if len(c.batch) > 0 {
			c.after = c.batch[len(c.batch)-1].seq
		}
	}
	if len(c.batch) == 0 {
		return nil, nil
	}
	return &c.batch[0], nil
}

// take goes behind the entry that peek gave.
func (c *cursor) take() { c.batch = c.batch[1:] }

// idOf reads an entry's event id and nothing else.
func idOf(body []byte) (string, error) {
	var r struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(body, &r)
	return r.ID, err
}
