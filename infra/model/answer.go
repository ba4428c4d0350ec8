package model

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"everloop/domain"
)

// answer collects a reply from its chunks.
type answer struct {
	onDelta  func(domain.Delta) error
	reply    domain.Reply
	text     strings.Builder
	thinking strings.Builder
	calls    assembler
	finish   string
	begun    bool
	stopped  error // what onDelta refused with
}

// add takes one chunk. Only the first choice counts: no more are asked for.
func (a *answer) add(c *chunk) error {
	if c.Model != "" {
		a.reply.Model = c.Model
	}

	if c.Usage != nil {
		a.reply.Usage = c.Usage.domain()
	}

	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue
		}

		piece := choice.Delta
		if piece == nil {
			piece = choice.Message
		}

		if piece != nil {
			if err := a.piece(piece); err != nil {
				return err
			}
		}

		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}

	return nil
}

func (a *answer) piece(d *delta) error {
	thought, field := d.thinking()
	if a.reply.ReasoningField == "" {
		a.reply.ReasoningField = field
	}

	if err := a.say(&a.thinking, domain.DeltaThinking, thought); err != nil {
		return err
	}

	if err := a.say(&a.text, domain.DeltaText, d.text()); err != nil {
		return err
	}

	for _, call := range d.ToolCalls {
		if err := a.calls.add(call); err != nil {
			return err
		}
	}

	return nil
}

func (a *answer) say(to *strings.Builder, kind domain.DeltaKind, text string) error {
	if text == "" {
		return nil
	}

	if to.Len()+len(text) > maxTextBytes {
		return refused(fmt.Sprintf("the model's answer exceeds %d bytes", maxTextBytes))
	}

	to.WriteString(text)

	if a.onDelta == nil {
		return nil
	}

	if err := a.onDelta(domain.Delta{Kind: kind, Text: text}); err != nil {
		a.stopped = err
		return err
	}

	return nil
}

// end judges the answer once the stream is over: by [DONE], by its end, or by
// a read error.
func (a *answer) end(c *Client, cause error) error {
	if errors.Is(cause, errLineTooLong) {
		return refused(cause.Error())
	}

	switch a.finish {
	case "":
		if errors.Is(cause, io.EOF) {
			return transient("the stream ended before the answer was complete")
		}

		return transient(c.clean("the stream was cut: " + networkText(cause)))
	case "error", "abort", "aborted", "cancelled":
		return transient("the model server gave up on the answer (" + a.finish + ")")
	}

	calls, err := a.calls.finish()
	if err != nil {
		return err
	}

	a.reply.Calls = calls
	a.reply.FinishReason = finishReason(a.finish, len(calls) > 0)

	return nil
}

// finishReason maps a server's word to the four that the domain knows. Some
// servers say stop although they ask for tools.
func finishReason(word string, calls bool) string {
	switch word {
	case "length", "max_tokens":
		return "length"
	case "content_filter":
		return word
	}

	if calls {
		return "tool_calls"
	}

	return "stop"
}

// result is the reply as far as it came.
func (a *answer) result() domain.Reply {
	a.reply.Text = a.text.String()
	a.reply.Thinking = a.thinking.String()

	return a.reply
}
