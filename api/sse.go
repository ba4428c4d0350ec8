package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

// streamPatience is how long one write to a stream may take before its client
// counts as gone.
const streamPatience = 30 * time.Second

// eventStream writes server-sent events to one client.
type eventStream struct {
	w    *bufio.Writer
	conn net.Conn
}

// openStream answers with a stream of server-sent events that run writes; it
// ends when run returns, when the process shuts down or when the client leaves,
// of which run's context tells.
func (s *server) openStream(ctx huma.Context, run func(ctx context.Context, out *eventStream) error) {
	c := fiberOf(ctx)
	c.Set(fiber.HeaderContentType, "text/event-stream")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set("X-Accel-Buffering", "no") // proxies must not collect it
	r := requestOf(ctx.Context())
	conn := c.Context().Conn()
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		ctx, cancel := context.WithCancel(withRequest(r.base, r))
		defer cancel()
		out := &eventStream{w: w, conn: conn}
		defer func() { _ = conn.SetWriteDeadline(time.Time{}) }() // the connection serves on
		if err := out.comment("open"); err != nil {
			return
		}
		if err := run(ctx, out); err != nil {
			s.Logger.Debug("stream ended", "request_id", r.id, "route", r.route, "error", err)
		}
	})
}

// comment writes a line that clients ignore, and tells whether they are there.
func (e *eventStream) comment(text string) error {
	fmt.Fprintf(e.w, ": %s\n\n", text)
	return e.flush()
}

// send writes an event of the log.
func (e *eventStream) send(event domain.LoggedEvent) {
	fmt.Fprintf(e.w, "id: %d\n", event.Seq)
	e.named(event.Name, event.Wire())
}

// named writes an event without a place in the log.
func (e *eventStream) named(name string, data []byte) {
	fmt.Fprintf(e.w, "event: %s\n", name)
	for line := range bytes.Lines(data) { // JSON of our own is one line; stored JSON may not be
		_, _ = e.w.WriteString("data: ")
		_, _ = e.w.Write(bytes.TrimRight(line, "\r\n"))
		_ = e.w.WriteByte('\n')
	}
	_ = e.w.WriteByte('\n')
}

func (e *eventStream) flush() error {
	if err := e.conn.SetWriteDeadline(time.Now().Add(streamPatience)); err != nil {
		return err
	}
	return e.w.Flush()
}

// follow copies events of a session to the client until pass says that one was
// the last. Between events it sends a pulse; at each, and when the rights to the
// session change, it asks stay whether the client may go on.
func (s *server) follow(ctx context.Context, out *eventStream, sessionID string, from Subscription,
	stay func(context.Context) error, pass func(domain.LoggedEvent) (send, last bool),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed, leave := s.open.join(sessionID)
	defer leave()
	events, failed := make(chan domain.LoggedEvent, 64), make(chan error, 1)
	go func() {
		defer close(events)
		for {
			event, err := from.Next(ctx)
			if err != nil {
				failed <- err
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	}()
	pulse := time.NewTicker(s.StreamPulse)
	defer pulse.Stop()
	for {
		select {
		case event, more := <-events:
			if !more {
				return endStream(out, sessionID, from.Position(), <-failed)
			}
			send, last := pass(event)
			if send {
				out.send(event)
			}
			if last {
				return out.flush()
			}
			if send && len(events) == 0 {
				if err := out.flush(); err != nil {
					return err
				}
			}
		case <-pulse.C:
			if err := out.comment("pulse"); err != nil {
				return err
			}
			if err := stay(ctx); err != nil {
				return endStream(out, sessionID, 0, err)
			}
		case <-changed:
			if err := stay(ctx); err != nil {
				return endStream(out, sessionID, 0, err)
			}
		}
	}
}
