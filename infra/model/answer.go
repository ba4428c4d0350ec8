package model

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"everloop/domain"
	"everloop/internal/modelmembers"
)

// answer collects a reply from its chunks.
type answer struct {
	onDelta  func(domain.Delta) error
	reply    domain.Reply
	text     strings.Builder
	thinking strings.Builder
	pieces   map[domain.DeltaKind]*prose
	calls    assembler
	members  modelmembers.Members
	used     counts
	deltas   bool // a delta arrived, in contrast to a whole message
	finish   string
	last     string // delta of the last chunk, as JSON
	started  bool
	stopped  error // error of onDelta
}

var kinds = []domain.DeltaKind{domain.DeltaThinking, domain.DeltaText}

func newAnswer(model string, onDelta func(domain.Delta) error) *answer {
	a := &answer{onDelta: onDelta, reply: domain.Reply{Model: model}, members: modelmembers.Members{}}
	a.pieces = map[domain.DeltaKind]*prose{
		domain.DeltaThinking: {emit: func(text string) error { return a.say(&a.thinking, domain.DeltaThinking, text) }},
		domain.DeltaText:     {emit: func(text string) error { return a.say(&a.text, domain.DeltaText, text) }},
	}

	return a
}

// add adds one chunk.
func (a *answer) add(c chunk) error {
	if model := word(c.object.Get("model")); model != "" {
		a.reply.Model = model
	}

	a.used.add(c.object.Get("usage"))

	one, has := c.choice()
	if !has {
		return nil
	}

	if a.finish != "" && one.finish != "" && one.delta.Raw == a.last {
		return nil // a repetition of the last chunk
	}

	a.last = one.delta.Raw

	delta, whole := readSaid(one.delta), readSaid(one.message)
	if a.reply.ReasoningField == "" {
		a.reply.ReasoningField = cmp.Or(delta.field, whole.field)
	}

	if err := a.addPiece(delta); err != nil {
		return err
	}

	a.deltas = a.deltas || delta.carries()

	take := a.addPiece
	if a.deltas {
		take = a.reconcile
	}

	if err := take(whole); err != nil {
		return err
	}

	if one.finish != "" {
		a.finish = one.finish
	}

	return nil
}

func (a *answer) addPiece(s said) error {
	a.members.AddMessage(s.of, false)

	for _, p := range s.parts {
		if err := a.pieces[p.kind].add(p.text); err != nil {
			return err
		}
	}

	if err := a.calls.read(s.calls); err != nil {
		return err
	}

	return nil
}

// reconcile adds the missing part of a whole message that arrived after its deltas.
func (a *answer) reconcile(s said) error {
	a.members.AddMessage(s.of, true)

	whole := map[domain.DeltaKind]string{}
	for _, p := range s.parts {
		whole[p.kind] += p.text
	}

	for _, kind := range kinds {
		if whole[kind] == "" {
			continue
		}

		if err := a.pieces[kind].whole(whole[kind]); err != nil {
			return err
		}
	}

	if err := a.calls.whole(s.calls); err != nil {
		return err
	}

	return nil
}

func (a *answer) say(to *strings.Builder, kind domain.DeltaKind, text string) error {
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

// end returns the fault of an ended stream, nil for a complete answer. cause is nil after [DONE],
// or the read error.
func (a *answer) end(c *Client, cause error) error {
	if errors.Is(cause, errLineTooLong) {
		return refused(cause.Error())
	}

	switch strings.ToLower(a.finish) {
	case "":
		if errors.Is(cause, io.EOF) {
			return transient("the stream ended before the answer was complete")
		}

		return transient(c.clean("the stream was cut: " + networkText(cause)))
	case "error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource", "malformed_function_call":
		return transient("the model server gave up on the answer (" + a.finish + ")")
	}

	for _, kind := range kinds {
		if err := a.pieces[kind].end(); err != nil {
			return err
		}
	}

	calls := a.calls.finish()
	a.reply.Calls, a.reply.ServerMembers = calls, a.members.Text()
	a.boundMembers()

	a.reply.FinishReason = finishReason(a.finish, len(calls) > 0)

	return nil
}

// boundMembers drops all extra members of a turn when they exceed the limit.
func (a *answer) boundMembers() {
	size := len(a.reply.ServerMembers)
	for _, call := range a.reply.Calls {
		size += len(call.ServerMembers)
	}

	if size <= domain.MaxServerMembers {
		return
	}

	a.reply.ServerMembers = ""
	for i := range a.reply.Calls {
		a.reply.Calls[i].ServerMembers = ""
	}
}

// finishReason maps a server's finish reason to the four of the domain. Some servers send stop
// with tool calls.
func finishReason(word string, calls bool) string {
	switch strings.ToLower(word) {
	case "length", "max_tokens", "max_output_tokens", "model_length":
		return "length"
	case "content_filter", "content_filtered", "safety", "sensitive", "refusal", "recitation", "prohibited_content", "blocklist":
		return "content_filter"
	}

	if calls {
		return "tool_calls"
	}

	return "stop"
}

// result returns the reply received so far.
func (a *answer) result() domain.Reply {
	a.reply.Usage = a.used.domain()
	a.reply.Text = a.text.String()
	a.reply.Thinking = a.thinking.String()

	return a.reply
}
