package session

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// messagesInline is how much of a list is collected before it is answered as a
// stream: shorter ones get a length, and an error can still be returned.
const messagesInline = 64 << 10

type messagesInput struct {
	access.SessionRef
	// -1 stands for "from the beginning"; sequences start at 0.
	AfterSequence int64 `query:"after_sequence" default:"-1" minimum:"-1" doc:"Only turns with a higher sequence." example:"41"`
	Limit         int   `query:"limit" minimum:"1" doc:"How many turns at most; without it all." example:"20"`
	Newest        bool  `query:"newest" doc:"With limit: the last turns instead of the first, still in order." example:"true"`
}

// MessagesAPI lists the turns of sessions.
type MessagesAPI struct {
	access.Sessions
	Transcripts
}

// Register adds the operations of the area to the interface.
func (a *MessagesAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-messages", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/messages", Tag: "Sessions",
		Summary:     "List the turns of the active branch, in order",
		Description: "The response is streamed, so that a history of any length works. A response that was cut off is not valid JSON.",
		Scope:       auth.SessionsRead,
		Replies:     []httpx.Reply{httpx.JSONReply[[]domain.Turn](http.StatusOK)},
	}, a.messages)
}

// messages writes the list row by row: a history of any length is never held
// whole.
func (a *MessagesAPI) messages(ctx context.Context, in *messagesInput) (*httpx.Streamed, error) {
	if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
		return nil, err
	}

	from, limit := in.AfterSequence, in.Limit
	if in.Newest && limit > 0 {
		last, err := a.Messages.LastSequence(ctx, in.SessionID)
		if err != nil {
			return nil, err
		}

		from, limit = max(from, last-int64(limit)), 0 // turns that start in the meantime are newer still
	}

	var after *int64
	if from >= 0 {
		after = &from
	}

	return a.streamRows(ctx, func(ctx context.Context) iter.Seq2[[]byte, error] {
		return a.turns(ctx, in.SessionID, after, limit, nil)
	})
}

// Transcripts stream the turns of sessions.
type Transcripts struct {
	Messages Messages
	Logger   *slog.Logger
}

// streamRows answers with a JSON array of rows. The rows are read in the context
// that they are given: they may be read after the handler has returned.
func (a *Transcripts) streamRows(ctx context.Context, rows func(context.Context) iter.Seq2[[]byte, error]) (*httpx.Streamed, error) {
	reading, stopReading := context.WithCancel(httpx.WithRequest(httpx.RequestOf(ctx).Base, httpx.RequestOf(ctx)))
	next, stop := iter.Pull2(rows(reading))
	end := func() { stop(); stopReading() }

	var head bytes.Buffer
	head.WriteByte('[')

	done := false
	for first := true; !done && head.Len() < messagesInline; first = false {
		row, err, more := next()
		if err != nil {
			end()
			return nil, err
		}

		if done = !more; more {
			_ = writeElement(&head, row, first) // memory takes all
		}
	}

	return &httpx.Streamed{Body: func(ctx huma.Context) {
		c := httpx.FiberOf(ctx)
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)

		if done || c.Method() == fiber.MethodHead {
			end()
			head.WriteByte(']')
			c.Response().SetBody(head.Bytes())

			return
		}

		conn := c.Context().Conn()
		c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
			defer end()

			_, _ = w.Write(head.Bytes()) // an error stays with w, and comes back with the next write

			for {
				_ = conn.SetWriteDeadline(time.Now().Add(httpx.WriteTimeout)) // a client that stands still is disconnected

				row, err, more := next()
				if err != nil { // too late for a status: the client must not take this for the whole
					a.Logger.Error("list of messages broken off", "request_id", httpx.RequestOf(reading).ID, "error", err)

					_ = conn.Close()

					return
				}

				if !more {
					_ = w.WriteByte(']')
					return
				}

				if err := writeElement(w, row, false); err != nil {
					return // the client left
				}
			}
		})
	}}, nil
}

// turns gives the turns of a session as JSON, one by one, each as change left it;
// change may be nil.
func (a *Transcripts) turns(
	ctx context.Context, sessionID domain.SessionID, after *int64, limit int, change func(*domain.Turn),
) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		left := errors.New("reader left")

		err := a.Messages.Messages(ctx, sessionID, after, limit, func(t domain.Turn) error {
			t.Blocks, t.ToolCalls = fields.OrEmpty(t.Blocks), fields.OrEmpty(t.ToolCalls)
			if change != nil {
				change(&t)
			}

			row, err := json.Marshal(t)
			if err != nil {
				return err
			}

			if !yield(row, nil) {
				return left
			}

			return nil
		})
		if err != nil && !errors.Is(err, left) {
			yield(nil, err)
		}
	}
}

// writeElement writes one element of a JSON array, and returns the error of the
// writer, which is that its reader left.
func writeElement(w io.Writer, row []byte, first bool) error {
	if !first {
		if _, err := w.Write([]byte{','}); err != nil {
			return err
		}
	}

	_, err := w.Write(row)

	return err
}
