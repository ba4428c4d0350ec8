package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"everloop/domain"
)

// maxInline is the maximum size of an encoded event in the stream, in bytes. The body of a larger
// event is stored as an object, and the stream contains a reference.
const maxInline = 256 << 10

// Blobs stores the bodies of large events. Keys are `events/<session_id>/<unique>`; the deletion
// of a session deletes them.
type Blobs interface {
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
}

// record is the encoding of an event in the stream. Session and seq are in the message's subject
// and sequence.
type record struct {
	ID     string          `json:"id,omitempty"`
	Name   string          `json:"name"`
	ChatID domain.ChatID   `json:"chat_id,omitempty"`
	At     int64           `json:"at"` // Unix time in nanoseconds
	Data   json.RawMessage `json:"data,omitempty"`
	Ref    string          `json:"ref,omitempty"` // key of the object that contains Data
	Lost   uint64          `json:"lost,omitempty"`
}

// missingData replaces a body whose object was deleted: the order of events is preserved, and a
// client sees that data is missing.
var missingData = json.RawMessage(`{"payload_missing":true}`)

// encode returns the stream's message for an event, after storing a large body as an object.
func (l *Log) encode(ctx context.Context, e domain.Event) ([]byte, error) {
	data := bytes.TrimSpace(e.Data)
	if len(data) > 0 && data[0] != '{' {
		return nil, domain.Newf(domain.Invalid, domain.CodeInvalidRequest, "data of event %s is not an object", e.Name)
	}

	r := record{ID: e.ID, Name: e.Name, ChatID: e.ChatID, At: e.At.UnixNano(), Data: data, Lost: e.LostSeq}

	body, err := marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.Name, err)
	}

	if len(body) <= maxInline {
		return body, nil
	}

	if l.cfg.Blobs == nil {
		return nil, domain.Newf(domain.TooLarge, domain.CodeMessageTooLarge,
			"event %s has %d bytes and there is no object store for it", e.Name, len(body))
	}

	r.Ref, r.Data = "events/"+string(e.SessionID)+"/"+bodyName(e), nil
	if err := l.cfg.Blobs.Put(ctx, r.Ref, data); err != nil {
		return nil, fmt.Errorf("store the body of event %s: %w", e.Name, err)
	}

	return marshal(r)
}

// bodyName returns the key of an event's body. It is deterministic: a repeated publish overwrites
// the same object.
func bodyName(e domain.Event) string {
	if e.ID != "" {
		return e.ID
	}

	return domain.NewID()
}

// marshal is json.Marshal without HTML escapes, which would enlarge text.
func marshal(r record) ([]byte, error) {
	var out bytes.Buffer

	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)

	if err := enc.Encode(r); err != nil {
		return nil, err
	}

	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// decode returns the event of a stream's message, and fetches a body that is stored as an object.
func (l *Log) decode(ctx context.Context, sessionID domain.SessionID, body []byte) (domain.Event, error) {
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return domain.Event{}, fmt.Errorf("event log holds what is not an event: %w", err)
	}

	e := domain.Event{
		ID: r.ID, SessionID: sessionID, Name: r.Name, ChatID: r.ChatID,
		At: time.Unix(0, r.At).UTC(), Data: r.Data, LostSeq: r.Lost,
	}
	if r.Ref == "" {
		return e, nil
	}

	if l.cfg.Blobs == nil {
		return e, domain.Unavailablef("object store", errors.New("not configured"))
	}

	data, err := l.cfg.Blobs.Get(ctx, r.Ref)
	switch {
	case err == nil:
		e.Data = data
	case domain.AsError(err).Kind == domain.NotFound:
		e.Data = missingData
	default:
		return e, fmt.Errorf("fetch the body of event %s: %w", e.Name, err)
	}

	return e, nil
}
