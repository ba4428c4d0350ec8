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
	// silence is how long a stream may say nothing, not even a comment, before it
	// counts as lost. The service sends a comment every 15 s.
	silence     = time.Minute
	maxEventLen = 64 << 20
)

// stream is one open connection to a session's events.
type stream struct {
	body   io.ReadCloser
	lines  *bufio.Reader
	alive  *time.Timer
	cancel context.CancelFunc
}

// open starts to follow a session; when it returns, nothing that happens from now
// on is missed. after gives first the kept events after that one; nil gives only
// what is new. ctx is for the opening only; the stream lives until it is closed.
func (c *Client) open(ctx context.Context, session string, after *uint64) (*stream, error) {
	path := sessionPath(session, "/events")
	if after != nil {
		path += fmt.Sprintf("?after_seq=%d", *after)
	}

	opening := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))

	defer context.AfterFunc(opening, func() { cancel(context.Canceled) })()

	alive := time.AfterFunc(silence, func() { cancel(errSilent) })
	end := func() { alive.Stop(); cancel(context.Canceled) }

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		end()
		return nil, err
	}

	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Accept", "text/event-stream")

	res, err := c.do(req)
	if err != nil {
		end()
		return nil, err
	}

	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body.Close()
		end()

		return nil, &Problem{Status: res.StatusCode, Detail: c.base + " answers, but not with events"}
	}

	return &stream{body: res.Body, lines: bufio.NewReaderSize(res.Body, 64<<10), alive: alive, cancel: end}, nil
}

var errSilent = errors.New("the stream fell silent")

func (s *stream) close() {
	s.cancel()
	s.body.Close()
}

// next reads one event. Any error, the end of ctx too, means that the connection
// is of no more use.
func (s *stream) next(ctx context.Context) (Event, error) {
	defer context.AfterFunc(ctx, s.cancel)()

	var (
		name string
		data []byte
	)

	for {
		line, err := s.line()
		if err != nil {
			return Event{}, err
		}

		s.alive.Reset(silence)

		if len(line) == 0 {
			if name == "" && len(data) == 0 {
				continue // the end of a comment
			}

			event := Event{}
			if err := json.Unmarshal(data, &event); err != nil {
				return Event{}, fmt.Errorf("an event cannot be read: %w", err)
			}

			event.Name = name

			return event, nil
		}

		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))

		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}

			data = append(data, value...)
		}
	}
}

// line reads a line without its end; a longer one than an event can be is a fault.
func (s *stream) line() ([]byte, error) {
	var whole []byte

	for {
		part, err := s.lines.ReadSlice('\n')

		whole = append(whole, part...)
		if err == nil {
			return bytes.TrimRight(whole, "\r\n"), nil
		}

		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err // an event that was cut off does not count
		}

		if len(whole) > maxEventLen {
			return nil, errors.New("an event is too large")
		}
	}
}
