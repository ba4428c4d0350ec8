package httpx

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// WriteTimeout is how long one write to a stream may take before its client
// counts as gone.
const WriteTimeout = 30 * time.Second

// EventStream writes server-sent events to one client.
type EventStream struct {
	w    *bufio.Writer
	conn net.Conn
}

// Streams are the event streams that are open.
type Streams struct {
	logger *slog.Logger
	pulse  time.Duration
	open   openStreams
	auth   *auth.Authenticator
}

// Open answers with a stream of server-sent events that run writes; it
// ends when run returns, when the process shuts down or when the client leaves,
// which the context of run shows.
func (s *Streams) Open(ctx huma.Context, run func(ctx context.Context, out *EventStream) error) {
	c := FiberOf(ctx)
	c.Set(fiber.HeaderContentType, "text/event-stream")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set("X-Accel-Buffering", "no") // proxies must not collect it

	r := RequestOf(ctx.Context())
	conn := c.Context().Conn()
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		ctx, cancel := context.WithCancel(WithRequest(r.Base, r))
		defer cancel()

		out := &EventStream{w: w, conn: conn}
		defer func() { _ = conn.SetWriteDeadline(time.Time{}) }() // the connection serves on

		if err := out.Comment("open"); err != nil {
			return
		}

		if err := run(ctx, out); err != nil {
			s.logger.Debug("stream ended", "request_id", r.ID, "route", r.Route, "error", err)
		}
	})
}

// Comment writes a line that clients ignore, and reports whether they are there.
func (e *EventStream) Comment(text string) error {
	fmt.Fprintf(e.w, ": %s\n\n", text)
	return e.Flush()
}

// Send writes an event of the log.
func (e *EventStream) Send(event domain.LoggedEvent) {
	fmt.Fprintf(e.w, "id: %d\n", event.Seq)
	e.Named(event.Name, event.Wire())
}

// Named writes an event without a place in the log.
func (e *EventStream) Named(name string, data []byte) {
	fmt.Fprintf(e.w, "event: %s\n", name)

	for line := range bytes.Lines(data) { // JSON of our own is one line; stored JSON may not be
		_, _ = e.w.WriteString("data: ")
		_, _ = e.w.Write(bytes.TrimRight(line, "\r\n"))
		_ = e.w.WriteByte('\n')
	}

	_ = e.w.WriteByte('\n')
}

// Flush writes out what was written so far.
func (e *EventStream) Flush() error {
	if err := e.conn.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
		return err
	}

	return e.w.Flush()
}

// Pulse returns the time between keep-alive comments on a stream.
func (s *Streams) Pulse() time.Duration { return s.pulse }

// CheckCredentials returns an error when the credentials by which a stream was opened are
// no longer valid. Credentials that cannot be checked now count as valid.
func (s *Streams) CheckCredentials(ctx context.Context, caller domain.Caller) error {
	if !s.auth.Alive(ctx, caller) {
		return domain.Newf(domain.Unauthenticated, domain.CodeUnauthorized, "the credential is not valid any more")
	}

	return nil
}

// Watch returns a channel that says when the rights of a caller to a session may
// have changed, until leave is called.
func (s *Streams) Watch(caller domain.Caller, sessionID domain.SessionID) (changed <-chan struct{}, leave func()) {
	return s.open.join(caller, sessionID)
}
