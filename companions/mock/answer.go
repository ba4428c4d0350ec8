package mock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"everloop/internal/retry"
)

// Outcomes of an answer, in the log of requests.
const (
	outcomeDone      = "completed"
	outcomeCut       = "cut"
	outcomeGone      = "client gone"
	outcomeMidError  = "error mid-stream"
	outcomeMalformed = "malformed chunk"
)

var (
	errCut       = errors.New(outcomeCut)
	errMidStream = errors.New(outcomeMidError)
	errMalformed = errors.New(outcomeMalformed)
)

// plan is a decided answer.
type plan struct {
	Step
	paced bool // send at reading speed
}

// decide returns the answer to a request. It depends on the request only.
func decide(req *chatRequest) (plan, *apiError) {
	model, _ := findModel(req.Model) // parseRequest checked the name
	messages := separate(req.Messages)
	split := *req
	split.Messages = messages
	talk := newConversation(&split)

	var (
		script *Script
		at     int
		fault  *apiError
	)

	if talk.task == taskNone || talk.task == taskPage { // titles and summaries can quote a script
		if script, at, fault = findScript(messages); fault != nil {
			return plan{}, fault
		}
	}

	if tokens := req.promptTokens(); tokens > model.ContextWindow {
		return plan{}, invalid(http.StatusBadRequest, "context_length_exceeded", fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens.", model.ContextWindow, tokens,
		))
	}

	var p plan

	switch summary := scriptedSummary(talk); {
	case summary != nil:
		p.Step = *summary
	case script != nil:
		p.Step = script.step(answersAfter(messages, at))
	case req.Model == EchoModel:
		p = plan{Step: Step{Echo: true}, paced: true}
	default:
		p = plan{Step: demoStep(talk), paced: true}
	}

	if p.Echo {
		p.Text = echo(req)
	}

	if !req.thinks() {
		p.Thinking = ""
	}

	return p, nil
}

// answersAfter counts the assistant messages after the message with a script, including the
// ones that a summary replaced.
func answersAfter(messages []chatMessage, at int) int {
	n := summarizedAnswers(messages, scriptName(string(messages[at].Content)))
	for _, m := range messages[at+1:] {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// echo returns the received request as text.
func echo(req *chatRequest) string {
	text, _ := json.MarshalIndent(map[string]any{ // strings and names always encode
		"model": req.Model, "stream": req.Stream, "messages": req.Messages,
		"tools": req.toolNames(), "response_schema": req.schema(),
	}, "", "  ")
	return string(text)
}

// perform sends an answer, faults included, and returns its outcome.
func (s *Service) perform(w http.ResponseWriter, r *http.Request, req *chatRequest, p plan) string {
	if p.FailTimes > 0 {
		s.limitFaults(&p.Step, req.key())
	}

	delay := time.Duration(p.FirstDelayMS) * time.Millisecond
	pace := time.Duration(p.DelayMS) * time.Millisecond

	if p.paced {
		delay, pace = 12*s.cfg.Pace, s.cfg.Pace
	}

	if !retry.Wait(r.Context(), delay) {
		return outcomeGone
	}

	if p.Status != 0 {
		return refuse(w, p.fault())
	}

	out := newSink(w, req)
	d := &sender{ctx: r.Context(), out: out, step: &p.Step, pace: pace, held: s.held}

	err := d.send(req.promptTokens())
	switch {
	case errors.Is(err, errCut), errors.Is(err, errClosing):
		out.flush()
		return outcomeCut
	case errors.Is(err, errMidStream):
		out.fail(p.fault())
		return outcomeMidError
	case errors.Is(err, errMalformed):
		out.garble()
		return outcomeMalformed
	case err != nil:
		return outcomeGone
	}

	return outcomeDone
}

// limitFaults removes the faults of a step after the first fail_times requests with the key.
// fail_times alone means status 503.
func (s *Service) limitFaults(step *Step, key string) {
	if step.Status == 0 && step.CutAfter == nil && !step.ErrorMidStream && !step.Malformed {
		step.Status = http.StatusServiceUnavailable
	}
	if !s.failures.add(key, step.FailTimes) {
		step.Status, step.CutAfter, step.ErrorMidStream, step.Malformed = 0, nil, false, false
	}
}

// fault returns the error object of a failing step.
func (s *Step) fault() *apiError {
	status := cmp.Or(s.Status, http.StatusInternalServerError)
	kind := "server_error"

	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status < http.StatusInternalServerError:
		kind = "invalid_request_error"
	}

	return &apiError{
		Status: status, RetryAfter: s.RetryAfter, Type: kind, Code: cmp.Or(s.ErrorCode, "scripted"),
		Message: cmp.Or(s.ErrorMessage, fmt.Sprintf("the script ordered this error (status %d)", status)),
	}
}

// breakAfter returns the number of pieces after which the answer breaks, and the error; nil
// for an answer that does not.
func (s *Step) breakAfter() (pieces int, err error) {
	switch {
	case s.Malformed:
		pieces, err = 1, errMalformed
	case s.ErrorMidStream:
		pieces, err = 1, errMidStream
	case s.CutAfter != nil:
		err = errCut
	}

	if s.CutAfter != nil {
		pieces = *s.CutAfter
	}

	return pieces, err
}

// sender sends the pieces of one answer.
type sender struct {
	ctx  context.Context
	out  sink
	step *Step
	pace time.Duration
	held *gate

	pieces int
	err    error // ends the answer: later pieces are not sent
}

func (d *sender) send(promptTokens int) error {
	d.err = d.out.start()

	for _, text := range split(d.step.Thinking, d.step.Chunk) {
		d.piece(func() error { return d.out.text("reasoning_content", text) })
	}

	for _, text := range split(d.step.Text, d.step.Chunk) {
		d.piece(func() error { return d.out.text("content", text) })
	}

	token := func() error { return d.out.text("content", "word ") }
	for range d.step.Tokens {
		d.piece(token)
	}

	for i, call := range d.step.Calls {
		d.piece(func() error { return d.out.call(i, call.id(), call.Name, "") })

		for _, fragment := range split(call.text(), cmp.Or(d.step.Chunk, 6)) { // about a token
			d.piece(func() error { return d.out.call(i, "", "", fragment) })
		}
	}

	if d.err == nil && d.step.Hold && d.pieces < max(d.step.HoldAfter, 1) { // the answer is shorter than hold_after
		d.out.flush()
		d.err = d.held.wait(d.ctx)
	}

	if _, broken := d.step.breakAfter(); d.err == nil {
		d.err = broken // the answer is shorter than cut_after
	}

	if d.err != nil {
		return d.err
	}

	usage := Usage{PromptTokens: promptTokens, CompletionTokens: d.pieces}
	if d.step.Usage != nil {
		usage = *d.step.Usage
	}

	usage.TotalTokens = usage.PromptTokens + usage.CompletionTokens

	finish := "stop"
	if len(d.step.Calls) > 0 {
		finish = "tool_calls"
	}

	return d.out.end(cmp.Or(d.step.FinishReason, finish), usage, d.step)
}

// piece sends one piece after its pause, and blocks or aborts the answer as ordered.
func (d *sender) piece(send func() error) {
	if d.err != nil {
		return
	}

	if after, broken := d.step.breakAfter(); broken != nil && d.pieces == after {
		d.err = broken
		return
	}

	if d.pace > 0 { // uneven, as real models are, but the same each time
		if !retry.Wait(d.ctx, d.pace*time.Duration(2+d.pieces*7%3)/3) {
			d.err = d.ctx.Err()
			return
		}
	}

	if d.err = send(); d.err != nil {
		return
	}

	d.pieces++
	hold := d.step.Hold && d.pieces == max(d.step.HoldAfter, 1)

	if d.pace > 0 || d.pieces == 1 || hold {
		d.out.flush()
	}

	if hold {
		d.err = d.held.wait(d.ctx)
	}
}

// split cuts a text into pieces of size characters; size 0 cuts after each word and the
// space that follows it.
func split(text string, size int) (pieces []string) {
	for text != "" {
		n := wordLength(text)
		if size > 0 {
			n = prefixLength(text, size)
		}
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// wordLength returns the length in bytes of the first word and the space after it.
func wordLength(text string) int {
	space := strings.IndexFunc(text, unicode.IsSpace)
	if space < 0 {
		return len(text)
	}
	return len(text) - len(strings.TrimLeftFunc(text[space:], unicode.IsSpace))
}

// prefixLength returns the length in bytes of the first characters of a text.
func prefixLength(text string, characters int) (n int) {
	for ; characters > 0 && n < len(text); characters-- {
		_, width := utf8.DecodeRuneInString(text[n:])
		n += width
	}
	return n
}

// id returns the call's id. It is random by default, as on real servers: two conversations
// with the same words have different calls.
func (c *Call) id() string { return cmp.Or(c.ID, "call_"+rand.Text()[:24]) }

// text returns the JSON text of the arguments.
func (c *Call) text() string {
	if c.Raw != nil {
		return *c.Raw
	}
	return cmp.Or(string(c.Arguments), "{}")
}
