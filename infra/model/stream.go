package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"everloop/domain"
)

// Waits for the end of a stream after the complete answer.
const (
	waitAfterFinish = 10 * time.Second      // for the usage chunk
	waitAfterDone   = 25 * time.Millisecond // wait for the end of the body, so that the connection can be reused
)

var errSilent = errors.New("the model server went silent")

// stream is Stream without tracing.
func (c *Client) stream(ctx context.Context, p domain.Prompt, onDelta func(domain.Delta) error) (domain.Reply, error) {
	callCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	res, err := c.send(callCtx, p)
	if err != nil {
		if ctx.Err() != nil {
			return domain.Reply{}, context.Cause(ctx)
		}

		return domain.Reply{}, err
	}
	defer res.Body.Close()

	a := newAnswer(p.Model, onDelta)

	silence := time.AfterFunc(c.cfg.FirstTimeout, func() { cancel(errSilent) })
	defer silence.Stop()

	switch kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind {
	case "application/json":
		err = c.readWhole(res.Body, a)
	case "text/html":
		err = refused("the model server answered with a web page; is its address right?")
	default:
		err = c.readStream(res.Body, a, silence)
	}
	// After a cancellation every read error is the context's, except for a complete answer and an
	// error of onDelta.
	if err != nil && a.stopped == nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(context.Cause(callCtx), errSilent):
			err = transient(fmt.Sprintf("the model server sent nothing for %s", c.patience(a)))
		}
	}

	return a.result(), err
}

// send sends a prompt, and repeats it without a feature that the server may have refused. A
// server can refuse several features, one after another.
func (c *Client) send(ctx context.Context, p domain.Prompt) (*http.Response, error) {
	without, refused := c.limits.known(ctx, p.Model).fields, map[feature]bool{}

	var first error

	for {
		res, words, err := c.request(ctx, p, without)
		if err == nil {
			c.limits.refused(ctx, p.Model, refused)
			return res, nil
		}

		f, named := suspect(err, words, features(p, without))
		if f == "" {
			return nil, blamed(first, err)
		}

		if !named && first == nil {
			first = err
		}

		without[f] = true
		if !thisSchema.MatchString(words) {
			refused[f] = true
		}
	}
}

// blamed returns the fault of a request whose repetition without the suspected feature failed,
// too: the first fault, if both were refusals.
func blamed(first, last error) error {
	one, was := errors.AsType[*domain.ModelError](first)
	two, is := errors.AsType[*domain.ModelError](last)

	if was && is && one.Fault == two.Fault {
		return first
	}

	return last
}

// request sends a prompt without some features and returns the response. An error is a
// *domain.ModelError, with the server's text.
func (c *Client) request(ctx context.Context, p domain.Prompt, without map[feature]bool) (res *http.Response, words string, err error) {
	body, err := encode(p, without)
	if err != nil {
		return nil, "", refused("the prompt cannot be encoded: " + err.Error())
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, "", refused("the address of the model server is not valid")
	}

	c.authorize(req)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")

	res, err = c.http.Do(req)
	if err != nil {
		return nil, "", transient(c.clean(networkText(err)))
	}

	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()

		fault, words := c.httpFaultWords(res, hasPictures(p))

		return nil, words, fault
	}

	return res, "", nil
}

func hasPictures(p domain.Prompt) bool {
	return slices.ContainsFunc(p.Messages, func(m domain.PromptMessage) bool {
		return slices.ContainsFunc(m.Parts, func(part domain.ContentPart) bool { return part.ImageURL != nil })
	})
}

// patience returns the timeout that applies to the stream.
func (c *Client) patience(a *answer) time.Duration {
	if a.started {
		return c.cfg.IdleTimeout
	}

	return c.cfg.FirstTimeout
}

// readStream reads server-sent events until the answer is complete.
func (c *Client) readStream(body io.Reader, a *answer, silence *time.Timer) error {
	in := newLines(body)
	e := eventReader{client: c, answer: a, silence: silence}

	for {
		line, err := in.next()
		if err != nil {
			return a.end(c, err)
		}

		over, err := e.read(line)
		if err != nil {
			return err
		}

		if !over {
			continue
		}

		if a.finish != "" {
			silence.Reset(waitAfterDone)

			_, _ = io.CopyN(io.Discard, in.r, 1<<10) // the answer is complete, so an error has no effect
		}

		return a.end(c, io.EOF)
	}
}

// eventReader reads the lines of a stream of server-sent events.
type eventReader struct {
	client  *Client
	answer  *answer
	silence *time.Timer // timer that cancels the call; only chunks reset it
	event   string      // its name
	partial []byte      // data that is continued in the next line
}

// read processes one line and reports whether it ends the stream.
func (e *eventReader) read(line []byte) (over bool, err error) {
	if len(line) == 0 {
		return false, e.endEvent()
	}

	name, value := field(line)

	switch {
	case name == "event":
		e.event = string(value)
	case name == "data" && string(value) == "[DONE]":
		return true, nil
	case name == "data":
		return false, e.data(value)
	case line[0] == '{':
		// Not an event stream's line. A server that fails may write its error object into the
		// stream.
		return false, e.take(line)
	}

	return false, nil
}

// data processes the data of one line. Invalid JSON is continued in the next line.
func (e *eventReader) data(value []byte) error {
	if len(e.partial) == 0 && json.Valid(value) {
		return e.take(value)
	}

	if len(e.partial)+len(value) > maxLineBytes {
		return refused(errLineTooLong.Error())
	}

	e.partial = append(e.partial, value...)
	if !json.Valid(e.partial) {
		return nil
	}

	value, e.partial = e.partial, nil

	return e.take(value)
}

func (e *eventReader) endEvent() error {
	e.event = ""
	if len(e.partial) == 0 {
		return nil
	}

	return e.take(e.partial)
}

// take adds a chunk and resets the idle timeout. A keep-alive, such as a comment or an event
// without a chunk, does not reset it: proxies send them for dead servers.
func (e *eventReader) take(data []byte) error {
	carries, err := e.client.take(e.answer, data, e.event == "error")
	if err != nil || !carries {
		return err
	}

	e.answer.started = true

	limit := e.client.cfg.IdleTimeout
	if e.answer.finish != "" {
		limit = min(waitAfterFinish, limit)
	}

	e.silence.Reset(limit)

	return nil
}

// take adds one chunk to the answer and reports whether it has content.
func (c *Client) take(a *answer, data []byte, isError bool) (carries bool, err error) {
	piece := chunk{gjson.ParseBytes(data)}
	if !json.Valid(data) || !piece.object.IsObject() {
		return false, transient(c.clean("the model server sent a malformed chunk: " + domain.FirstRunes(string(data), 80)))
	}

	if isError || piece.isError() {
		return false, c.bodyFault(data)
	}

	return piece.carries(), a.add(piece)
}

// readWhole reads a completion from a server that does not stream.
func (c *Client) readWhole(body io.Reader, a *answer) error {
	data, err := io.ReadAll(io.LimitReader(body, maxLineBytes+1))
	if err != nil {
		return transient(c.clean("the answer was cut: " + networkText(err)))
	}

	if len(data) > maxLineBytes {
		return refused(fmt.Sprintf("the answer exceeds %d bytes", maxLineBytes))
	}

	if _, err := c.take(a, data, false); err != nil {
		return err
	}

	return a.end(c, io.EOF)
}

// networkText returns the cause of a failed request without its URL, which can contain
// credentials.
func networkText(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}

	return err.Error()
}
