package terminal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// maxSilence is how long a stream can be silent before it counts as lost. The service
	// sends a comment every 15 s.
	maxSilence = time.Minute
	maxEvent   = 64 << 20 // bytes
)

var errIdle = errors.New("stream idle timeout")

// stream is an open connection to a session's events.
type stream struct {
	body   io.ReadCloser
	lines  *bufio.Reader
	idle   *time.Timer
	cancel context.CancelFunc
}

// open opens a stream of a session's events that misses no later event. With after, it starts
// with the stored events after that position. ctx bounds only the opening.
func (c *Client) open(ctx context.Context, session string, after *uint64) (s *stream, err error) {
	path := sessionPath(session, "/events")
	if after != nil {
		path += fmt.Sprintf("?after_seq=%d", *after)
	}

	streamCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { cancel(context.Canceled) })()

	idle := time.AfterFunc(maxSilence, func() { cancel(errIdle) })
	end := func() { idle.Stop(); cancel(context.Canceled) }

	defer func() {
		if err != nil {
			end()
		}
	}()

	req, err := http.NewRequestWithContext(streamCtx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Accept", "text/event-stream")

	res, err := c.do(req)
	if err != nil {
		return nil, err
	}

	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body.Close()
		return nil, &Problem{Status: res.StatusCode, Detail: c.base + " did not return an event stream"}
	}

	return &stream{body: res.Body, lines: bufio.NewReaderSize(res.Body, 64<<10), idle: idle, cancel: end}, nil
}

func (s *stream) close() {
	s.cancel()
	s.body.Close()
}

// next reads one event. The stream is unusable after any error, including the end of ctx.
func (s *stream) next(ctx context.Context) (event Event, err error) {
	defer context.AfterFunc(ctx, s.cancel)()

	var data []byte

	for {
		line, err := s.line()
		if err != nil {
			return Event{}, err
		}

		s.idle.Reset(maxSilence)

		if len(line) == 0 {
			if event.Name == "" && len(data) == 0 {
				continue // the end of a comment
			}

			if err := json.Unmarshal(data, &event); err != nil {
				return Event{}, fmt.Errorf("invalid event: %w", err)
			}

			return event, nil
		}

		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))

		switch string(field) {
		case "event":
			event.Name = string(value)
		case "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}

			data = append(data, value...)
		}
	}
}

// line reads a line without its line break.
func (s *stream) line() (line []byte, err error) {
	for {
		part, err := s.lines.ReadSlice('\n')
		line = append(line, part...)

		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err // a partial event does not count
		case len(line) > maxEvent:
			return nil, errors.New("event is too large")
		}
	}
}
