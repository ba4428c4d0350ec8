package dialect

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"everloop/internal/modelmembers"
)

// responseStream translates a stream of chat completions to the events of the Responses
// interface. Items start in order; several function calls can be open concurrently.
type responseStream struct {
	out      io.Writer
	of       *responses
	answered Answered
	err      error // of writing

	number   int // of the next event
	response response
	started  bool
	over     bool
	open     *textItem // reasoning, text or a refusal
	calls    []*callStream
	size     int // buffered bytes
	ended    gjson.Result
	usage    gjson.Result
	field    string               // of the reasoning
	members  modelmembers.Members // of the message
	collector
}

// textItem is an item of text that arrives in pieces.
type textItem struct {
	kind  string // reasoning, text or refusal
	index int
	text  strings.Builder
}

// callStream is a call of a function that arrives in pieces.
type callStream struct {
	place     int64  // index among the source's calls
	index     int    // of its item; -1: the item waits for the name
	given     string // the source's id; empty: none
	id, name  string
	arguments bytes.Buffer
	sent      int
	custom    bool // of a custom tool
	members   modelmembers.Members
}

func (s *responseStream) Failed() error { return s.err }

func (s *responseStream) Silence() {
	if s.over || s.err != nil {
		return
	}

	_, s.err = io.WriteString(s.out, ": keep-alive\n\n")
}

func (s *responseStream) Malformed() { s.fail("source_error", notJSON) }

func (s *responseStream) Chunk(text []byte) {
	object := gjson.ParseBytes(text)
	if fault := object.Get("error"); fault.IsObject() || fault.Type == gjson.String {
		message, code := reason(text)
		s.fail(code, message)

		return
	}

	if usage := object.Get("usage"); usage.IsObject() {
		s.usage = usage
	}

	choice := object.Get("choices.0")
	if s.over || !choice.IsObject() {
		return
	}

	s.begin()

	said := choice.Get("delta")
	if !said.IsObject() {
		said = choice.Get("message")
	}

	keeps := s.keeps(said)
	if keeps {
		s.members.AddMessage(said, false)
	}

	if field := reasoningField(said); field != "" {
		s.field = field
	}

	refusal := said.Get("refusal").String()

	s.say("reasoning", thinkingOf(said))
	s.say("text", strings.TrimSuffix(textOf(said), refusal))
	s.say("refusal", refusal)
	said.Get("tool_calls").ForEach(func(key, one gjson.Result) bool {
		piece := pieceOf(key.Int(), one)
		if !keeps {
			piece.of = gjson.Result{}
		}

		s.callPiece(piece)

		return !s.over
	})

	if choice.Get("finish_reason").String() != "" {
		s.ended = choice
	}
}

func (s *responseStream) begin() {
	if s.started {
		return
	}

	s.started = true
	s.response = s.of.started(s.answered)
	s.event("response.created", map[string]any{"response": s.response})
	s.event("response.in_progress", map[string]any{"response": s.response})
}

// add starts an item and returns its index.
func (s *responseStream) add(item any) int {
	index := len(s.response.Output)
	s.response.Output = append(s.response.Output, item)
	s.event("response.output_item.added", map[string]any{"output_index": index, "item": item})

	return index
}

// done ends an item.
func (s *responseStream) done(index int, item any) {
	s.response.Output[index] = item
	s.event("response.output_item.done", map[string]any{"output_index": index, "item": item})
}

// say takes a piece of text.
func (s *responseStream) say(kind, text string) {
	if text == "" || s.over || !s.holds(len(text)) {
		return
	}

	if s.open == nil || s.open.kind != kind {
		s.closeText(completed)
		s.openText(kind)
	}

	s.open.text.WriteString(text)

	delta := s.open.place(map[string]any{"item_id": s.textID(), "delta": text})
	if kind == "text" {
		delta["logprobs"] = []any{}
	}

	s.event("response."+s.open.event()+".delta", delta)
}

// holds counts the buffered bytes of an answer, and ends one that is too long.
func (s *responseStream) holds(n int) bool {
	if s.size += n; s.size > maxHeld {
		s.fail("source_error", "the answer of the source is too long")
		return false
	}

	return true
}

func (s *responseStream) openText(kind string) {
	index := len(s.response.Output)

	s.open = &textItem{kind: kind, index: index}
	if kind == "reasoning" {
		s.add(s.of.reasoningItem(index, inProgress))
	} else {
		s.add(s.of.messageItem(index, inProgress))
	}

	s.event("response.content_part.added", s.open.place(map[string]any{"item_id": s.textID(), "part": s.open.part("")}))
}

func (s *responseStream) textID() string {
	if s.open.kind == "reasoning" {
		return s.of.itemID("rs", s.open.index)
	}

	return s.of.itemID("msg", s.open.index)
}

// closeText ends the open item of text.
func (s *responseStream) closeText(status string) {
	if s.open == nil {
		return
	}

	open, text := s.open, s.open.text.String()

	whole := open.place(map[string]any{"item_id": s.textID(), open.field(): text})
	if open.kind == "text" {
		whole["logprobs"] = []any{}
	}

	s.event("response."+open.event()+".done", whole)
	s.event("response.content_part.done", open.place(map[string]any{"item_id": s.textID(), "part": open.part(text)}))

	if open.kind == "reasoning" {
		item := s.of.reasoningItem(open.index, status, text)
		item.Encrypted = carried{Model: s.answered.Model, Field: s.field}.opaque()
		s.done(open.index, item)
	} else {
		s.done(open.index, s.of.messageItem(open.index, status, open.part(text)))
	}

	s.open = nil
}

// event returns the middle of the names of the item's events.
func (t *textItem) event() string {
	return map[string]string{"reasoning": "reasoning_text", "text": "output_text", "refusal": "refusal"}[t.kind]
}

// field is the name of the whole text's field in the last of these events.
func (t *textItem) field() string {
	if t.kind == "refusal" {
		return "refusal"
	}

	return "text"
}

func (t *textItem) part(text string) any {
	switch t.kind {
	case "reasoning":
		return reasoningText{"reasoning_text", text}
	case "refusal":
		return refusalContent(text)
	}

	return textContent(text)
}

func (t *textItem) place(fields map[string]any) map[string]any {
	fields["output_index"], fields["content_index"] = t.index, 0
	return fields
}

// callPiece takes a piece of a call of a function.
func (s *responseStream) callPiece(piece callPiece) {
	one := s.callOf(piece)
	if one == nil {
		return
	}

	if one.given == "" {
		one.given = piece.id
	}

	if one.name == "" {
		one.name = piece.name
	}

	if !s.holds(len(piece.arguments)) {
		return
	}

	one.members.AddCall(piece.of, false)
	one.arguments.WriteString(piece.arguments)
	s.writeCall(one)
}

// callOf returns the call of a piece; nil: there are too many calls.
func (s *responseStream) callOf(piece callPiece) *callStream {
	for _, one := range slices.Backward(s.calls) { // the last one at the index
		if one.place != piece.place {
			continue
		}

		if piece.begins(one.given, one.arguments.Bytes()) {
			break
		}

		return one
	}

	if len(s.calls) == maxCalls {
		s.fail("source_error", "the source called too many tools")
		return nil
	}

	one := &callStream{place: piece.place, index: -1, members: modelmembers.Members{}}
	s.calls = append(s.calls, one)

	return one
}

// writeCall writes the available part of a call once its name is known.
func (s *responseStream) writeCall(one *callStream) {
	if one.name == "" {
		return // a later piece contains it
	}

	if one.index < 0 {
		s.closeText(completed)

		one.id = functionCallID(one.given)
		one.custom = s.of.isCustom(one.name)
		one.index = len(s.response.Output)
		s.add(s.callItem(one, inProgress, ""))
	}

	if one.custom { // its input is part of the arguments, which is read when they are complete
		return
	}

	if rest := one.arguments.Bytes()[one.sent:]; len(rest) > 0 {
		s.event("response.function_call_arguments.delta", map[string]any{
			"item_id": s.of.itemID("fc", one.index), "output_index": one.index, "delta": string(rest),
		})

		one.sent = one.arguments.Len()
	}
}

func (s *responseStream) callItem(one *callStream, status, arguments string) any {
	if one.custom {
		return s.of.customCallItem(one.index, status, one.id, one.name, arguments)
	}

	return callItem{
		ID: s.of.itemID("fc", one.index), Type: "function_call", Status: status,
		CallID: one.id, Name: one.name, Arguments: arguments,
	}
}

func (s *responseStream) End() {
	if s.over {
		return
	}

	s.begin()
	s.response.end(s.answered, s.ended, s.usage)

	status := completed
	if s.response.Status == incomplete {
		status = incomplete
	}

	s.closeText(status)

	for i, one := range s.calls {
		if one.name == "" {
			s.fail("source_error", noName)
			return
		}

		arguments, itemStatus := one.arguments.String(), completed

		switch whole := callArguments(&arguments); {
		case whole:
		case status == incomplete && i == len(s.calls)-1: // the token limit truncated the call
			itemStatus = incomplete
		default:
			s.fail("source_error", badArguments)
			return
		}

		s.argumentsDone(one, arguments)
		s.done(one.index, s.callItem(one, itemStatus, arguments))
	}

	s.writeCarried()

	s.event("response."+s.response.Status, map[string]any{"response": s.response})
	s.over = true
}

// writeCarried writes the members that the source needs back.
func (s *responseStream) writeCarried() {
	c := carried{Model: s.answered.Model, Field: s.field, Message: s.members.Text()}
	for _, one := range s.calls {
		c.call(one.id, one.members)
	}

	if c.needed() {
		index := s.add(s.of.reasoningItem(len(s.response.Output), inProgress))
		s.done(index, s.of.carriedItem(index, c))
	}
}

// argumentsDone writes the end of a call's arguments.
func (s *responseStream) argumentsDone(one *callStream, arguments string) {
	if !one.custom {
		s.event("response.function_call_arguments.done", map[string]any{
			"item_id": s.of.itemID("fc", one.index), "output_index": one.index, "name": one.name, "arguments": arguments,
		})

		return
	}

	input := inputOf(arguments)

	id := s.of.itemID("ctc", one.index)
	s.event("response.custom_tool_call_input.delta", map[string]any{"item_id": id, "output_index": one.index, "delta": input})
	s.event("response.custom_tool_call_input.done", map[string]any{"item_id": id, "output_index": one.index, "input": input})
}

func (s *responseStream) Finish() {
	if s.ended.Exists() {
		s.End()
	}
}

// fail ends the response with a fault.
func (s *responseStream) fail(code, message string) {
	s.begin()
	s.response.Status, s.response.Error = "failed", &responseFault{Code: code, Message: message}
	s.response.Usage, s.response.Incomplete = nil, nil
	s.event("response.failed", map[string]any{"response": s.response})
	s.over = true
}

// event writes an event; after the last one it writes nothing.
func (s *responseStream) event(name string, fields map[string]any) {
	if s.over || s.err != nil {
		return
	}

	fields["type"], fields["sequence_number"] = name, s.number
	s.number++

	text, err := json.Marshal(fields)
	if err != nil {
		s.err = err
		return
	}

	_, s.err = s.out.Write([]byte("event: " + name + "\ndata: " + string(text) + "\n\n"))
}

// callArguments replaces an empty text with an empty object, and reports whether the arguments
// are a JSON object.
func callArguments(arguments *string) bool {
	if strings.TrimSpace(*arguments) == "" {
		*arguments = "{}"
	}

	return isObject(*arguments)
}

func functionCallID(id string) string {
	if id == "" {
		return "call_" + rand.Text()
	}

	return id
}
