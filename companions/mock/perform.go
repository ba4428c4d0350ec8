package mock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
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

// perform sends a planned answer, faults included, and gives its outcome.
func (s *Service) perform(w http.ResponseWriter, r *http.Request, req *chatRequest, p plan) string {
	if !s.mustFail(req, &p) {
		p.Status, p.CutAfter, p.ErrorMidStream, p.Malformed = 0, nil, false, false
	}

	first := time.Duration(p.FirstDelayMS) * time.Millisecond
	if p.paced {
		first = 12 * s.cfg.Pace
	}

	if err := pause(r.Context(), first); err != nil {
		return outcomeGone
	}

	if p.Status != 0 {
		writeError(w, p.fault())
		return fmt.Sprintf("status %d", p.Status)
	}

	var out sink
	if req.Stream {
		out = newStream(w, req)
	} else {
		out = newWhole(w, req)
	}

	err := s.send(r.Context(), out, req, p)
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

// mustFail reports whether the step's faults apply to this request. fail_times
// alone means a 503.
func (s *Service) mustFail(req *chatRequest, p *plan) bool {
	if p.FailTimes == 0 {
		return true
	}

	if p.Status == 0 && p.CutAfter == nil && !p.ErrorMidStream && !p.Malformed {
		p.Status = http.StatusServiceUnavailable
	}

	return s.failures.add(req.key(), p.FailTimes)
}

// fault is the error object of a step that fails.
func (p *plan) fault() *apiError {
	e := &apiError{Status: p.Status, RetryAfter: p.RetryAfter, Message: p.ErrorMessage, Code: p.ErrorCode}
	if e.Status == 0 {
		e.Status = http.StatusInternalServerError
	}

	e.Type = "server_error"
	if e.Status < 500 {
		e.Type = "invalid_request_error"
	}

	if e.Status == http.StatusTooManyRequests {
		e.Type = "rate_limit_error"
	}

	if e.Code == "" {
		e.Code = "scripted"
	}

	if e.Message == "" {
		e.Message = fmt.Sprintf("the script ordered this error (status %d)", e.Status)
	}

	return e
}

// sender sends the pieces of one answer and knows where it must pause or break.
type sender struct {
	ctx       context.Context
	out       sink
	plan      plan
	pace      time.Duration
	held      *gate
	pieces    int
	breakAt   int // -1: never
	breakWith error
}

// send gives a whole answer to the sink, or the error at which it stopped.
func (s *Service) send(ctx context.Context, out sink, req *chatRequest, p plan) error {
	d := &sender{ctx: ctx, out: out, plan: p, held: s.held, breakAt: -1, pace: time.Duration(p.DelayMS) * time.Millisecond}
	if p.paced {
		d.pace = s.cfg.Pace
	}

	if p.CutAfter != nil {
		d.breakAt, d.breakWith = *p.CutAfter, errCut
	}

	if p.ErrorMidStream || p.Malformed {
		d.breakWith = errMidStream
		if p.Malformed {
			d.breakWith = errMalformed
		}

		if p.CutAfter == nil {
			d.breakAt = 1
		}
	}

	if err := out.begin(); err != nil {
		return err
	}

	if err := d.text(p); err != nil {
		return err
	}

	if err := d.calls(p.Calls); err != nil {
		return err
	}

	if p.Hold && d.pieces < max(p.HoldAfter, 1) { // the answer was shorter than the order to hold it
		out.flush()

		if err := s.held.wait(ctx); err != nil {
			return err
		}
	}

	if d.breakAt >= 0 { // the answer was shorter than the order to break it
		return d.breakWith
	}

	usage := Usage{PromptTokens: req.promptTokens(), CompletionTokens: d.pieces}
	if p.Usage != nil {
		usage = *p.Usage
	}

	usage.TotalTokens = usage.PromptTokens + usage.CompletionTokens

	return out.end(p.finish(), usage, &p.Step)
}

func (p *plan) finish() string {
	switch {
	case p.FinishReason != "":
		return p.FinishReason
	case len(p.Calls) > 0:
		return "tool_calls"
	}

	return "stop"
}

func (d *sender) text(p plan) error {
	for _, piece := range split(p.Thinking, p.Chunk) {
		if err := d.piece(func() error { return d.out.thinking(piece) }); err != nil {
			return err
		}
	}

	for _, piece := range split(p.Text, p.Chunk) {
		if err := d.piece(func() error { return d.out.text(piece) }); err != nil {
			return err
		}
	}

	if p.Tokens > 0 {
		token := d.out.prepare("word ")
		for range p.Tokens {
			if err := d.piece(token); err != nil {
				return err
			}
		}
	}

	return nil
}

func (d *sender) calls(calls []Call) error {
	for i, call := range calls {
		fragments := split(call.text(), fragmentSize(d.plan.Chunk))
		if err := d.piece(func() error { return d.out.call(i, call.id(), call.Name, "") }); err != nil {
			return err
		}

		for _, f := range fragments {
			if err := d.piece(func() error { return d.out.call(i, "", "", f) }); err != nil {
				return err
			}
		}
	}

	return nil
}

// piece sends one piece after its pause, and holds or breaks the answer where
// the script says so.
func (d *sender) piece(send func() error) error {
	if d.pieces == d.breakAt {
		return d.breakWith
	}

	if d.pace > 0 {
		// Uneven, as real models are, but the same each time.
		if err := pause(d.ctx, d.pace*time.Duration(2+d.pieces*7%3)/3); err != nil {
			return err
		}
	}

	if err := send(); err != nil {
		return err
	}

	d.pieces++
	if d.pace > 0 || d.pieces == 1 {
		d.out.flush()
	}

	if d.plan.Hold && d.pieces == max(d.plan.HoldAfter, 1) {
		d.out.flush()
		return d.held.wait(d.ctx)
	}

	return nil
}

// pause waits, unless the client leaves.
func pause(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}

	timer := time.NewTimer(wait)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
