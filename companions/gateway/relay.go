package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
)

const (
	maxLine    = 16 << 20        // bytes of one line of a stream
	slowClient = 2 * time.Minute // until a client reads the written data
)

var errLine = errors.New("a line of the stream is too long")

// relay passes on a stream of server-sent events line by line.
type relay struct {
	call   *call
	to     *source
	w      http.ResponseWriter
	cancel context.CancelCauseFunc
	timer  *time.Timer // ends the request of a silent source
	due    time.Time   // the timer's time

	started bool // data was received
	ended   bool // a finish reason, [DONE] or an error was received
	dropped bool // the blank line after a dropped one is due
}

// line is a line of the source, or how the stream ended.
type line struct {
	text []byte
	more bool // another line follows immediately
	err  error
}

func (y *relay) run(ctx context.Context, res *http.Response) {
	head := y.w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-cache")
	head.Set("X-Accel-Buffering", "no")
	y.w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(y.w)

	if y.write(out.Flush) != nil {
		y.cancel(nil)
		return
	}

	lines := make(chan line, 16)
	go readLines(ctx, res.Body, lines)

	quiet := time.NewTimer(y.call.service.cfg.KeepAlive)
	defer quiet.Stop()

	for {
		quiet.Reset(y.call.service.cfg.KeepAlive)

		var err error

		select {
		case l := <-lines:
			if l.err != nil {
				y.end(ctx, l.err)

				_ = out.Flush() // the client may have disconnected

				return
			}

			text := y.take(l.text)
			err = y.write(func() error {
				if text != nil {
					if _, err := y.w.Write(text); err != nil {
						return err
					}
				}

				if l.more {
					return nil
				}

				return out.Flush()
			})
		case <-ctx.Done():
			y.end(ctx, ctx.Err())

			_ = out.Flush() // the client may have disconnected

			return
		case <-quiet.C:
			err = y.write(func() error {
				if _, err := io.WriteString(y.w, ": keep-alive\n\n"); err != nil {
					return err
				}

				return out.Flush()
			})
		}

		if err != nil { // the client disconnected: the source's request is cancelled
			y.cancel(err)
			return
		}
	}
}

// write writes to the client. While it blocks, nothing is read from the source, and the
// source's idle timer is suspended.
func (y *relay) write(what func() error) error {
	y.timer.Stop()

	left := time.Until(y.due)
	err := what()

	y.silentFor(left)

	return err
}

// silentFor sets the idle timeout of the source to d from now.
func (y *relay) silentFor(d time.Duration) {
	y.due = time.Now().Add(d)
	y.timer.Reset(d)
}

// readLines sends the lines of a stream to lines until the stream ends or the context does.
func readLines(ctx context.Context, from io.Reader, lines chan<- line) {
	in := bufio.NewReaderSize(from, 32<<10)
	give := func(l line) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}

	var text []byte

	for {
		part, err := in.ReadSlice('\n')

		text = append(text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(text) <= maxLine {
				continue
			}

			err = errLine
		case err == nil:
			if !give(line{text: text, more: in.Buffered() > 0}) {
				return
			}

			text = nil

			continue
		case len(text) > 0 && errors.Is(err, io.EOF):
			if !give(line{text: append(text, '\n')}) {
				return
			}
		}

		give(line{err: err})

		return
	}
}

// take returns the part of a line to pass on; nil: none.
func (y *relay) take(text []byte) []byte {
	bare := bytes.TrimRight(text, "\r\n")

	value, isData := bytes.CutPrefix(bare, []byte("data:"))
	if !isData {
		if y.dropped && len(bare) == 0 {
			y.dropped = false
			return nil
		}

		return text
	}

	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return text
	}

	if string(value) == "[DONE]" {
		y.alive()

		y.ended = true

		return text
	}

	if !json.Valid(value) {
		y.alive()

		return text
	}

	if gjson.GetBytes(value, "type").String() != "ping" {
		y.alive()
	}

	y.call.meter.pieces++
	y.call.meter.read(value)
	fields := gjson.GetManyBytes(value, "error", "choices.0.finish_reason", "choices", "usage", "type")

	y.ended = y.ended || fields[0].IsObject() || fields[0].Type == gjson.String || fields[1].String() != "" ||
		fields[4].String() == "transcript.text.done"
	if y.call.body.addsUsage && fields[3].IsObject() && fields[2].IsArray() && len(fields[2].Array()) == 0 {
		y.dropped = true // the client did not request it
		return nil
	}

	named := y.call.echo(value)
	if len(named) == len(value) && &named[0] == &value[0] {
		return text
	}

	return append(append([]byte("data: "), named...), '\n')
}

// alive resets the idle timeout after a piece of the source's answer. Keep-alives, such as
// comments, do not count: a proxy sends them for a dead source.
func (y *relay) alive() {
	y.started = true
	y.silentFor(y.patience())
}

// patience returns the idle timeout of the source.
func (y *relay) patience() time.Duration {
	if y.started {
		return y.to.idle()
	}

	return y.to.timeout()
}

// end writes why a stream ended before the answer was complete.
func (y *relay) end(ctx context.Context, err error) {
	silent := errors.Is(context.Cause(ctx), errSlow)
	if ctx.Err() != nil && !silent {
		return // the client disconnected
	}

	if y.ended && errors.Is(err, io.EOF) {
		return
	}

	fault := sourceFault(0, "source_cut", "the source "+y.to.Name+" ended the stream before its answer")

	switch {
	case silent:
		fault = sourceFault(0, "source_timeout", "the source "+y.to.Name+" went silent")
	case errors.Is(err, errLine):
		fault = sourceFault(0, "source_error", "the source "+y.to.Name+" sent a line that is too long")
	}

	_, _ = y.w.Write(append(append([]byte("\ndata: "), fault.object()...), "\n\n"...)) // the client may have disconnected
}
