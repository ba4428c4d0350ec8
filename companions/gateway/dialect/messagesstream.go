package dialect

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/tidwall/gjson"

	"everloop/internal/modelmembers"
)

// Bounds of a stream.
const (
	maxCalls     = 1000     // tool calls of one message
	maxArguments = 16 << 20 // bytes of their arguments
	maxHeld      = 64 << 20 // buffered bytes of a response
)

// messageStream translates a stream of chat completions to Anthropic's events. Blocks are
// sequential: one starts after the previous one has ended.
type messageStream struct {
	out      io.Writer
	id       string
	answered Answered
	stops    []string
	err      error // of writing

	started bool
	over    bool // message_stop or an error was sent
	index   int  // of the open block, else of the next one
	open    string
	calls   []*streamedCall
	done    int // calls whose block has ended
	size    int // bytes of the arguments of all calls
	late    []contentBlock
	ended   gjson.Result // the choice with the finish reason
	refused bool
	usage   gjson.Result
	field   string               // of the reasoning
	members modelmembers.Members // of the message
	collector
}

// streamedCall is a tool call that arrives in pieces.
type streamedCall struct {
	index     int64
	id, name  string
	arguments bytes.Buffer
	sent      int
	members   modelmembers.Members
}

func (s *messageStream) Failed() error { return s.err }

func (s *messageStream) Silence() { s.event("ping", map[string]any{}) }

func (s *messageStream) Malformed() { s.fail("api_error", notJSON, "source_error") }

const notJSON = "the source sent a piece that is not JSON"

func (s *messageStream) Chunk(text []byte) {
	object := gjson.ParseBytes(text)
	if fault := object.Get("error"); fault.IsObject() || fault.Type == gjson.String {
		message, code := reason(text)
		s.fail(streamFaultType(fault), message, code)

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

	s.refused = s.refused || said.Get("refusal").String() != ""
	keeps := s.keeps(said)
	if keeps {
		s.members.AddMessage(said, false)
	}

	if field := reasoningField(said); field != "" {
		s.field = field
	}

	s.say("thinking", thinkingOf(said))
	s.say("text", textOf(said))
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

// streamFaultType returns the type of an error that occurred after the status was sent.
func streamFaultType(fault gjson.Result) string {
	said := strings.ToLower(fault.Get("type").String() + " " + fault.Get("code").String())
	switch {
	case strings.Contains(said, "rate_limit"), strings.Contains(said, "429"):
		return "rate_limit_error"
	case strings.Contains(said, "overloaded"), strings.Contains(said, "503"):
		return "overloaded_error"
	case strings.Contains(said, "source_timeout"):
		return "timeout_error"
	case strings.Contains(said, "invalid_request"):
		return "invalid_request_error"
	}

	return "api_error"
}

func (s *messageStream) begin() {
	if s.started {
		return
	}

	s.started = true
	s.event("message_start", map[string]any{"message": emptyMessage(s.id, s.answered.Model)})
}

// say takes text or thinking. It buffers everything after the start of a tool call until the
// calls are complete.
func (s *messageStream) say(kind, text string) {
	switch {
	case text == "":
		return
	case len(s.calls) > 0:
		if s.size += len(text); s.size > maxArguments {
			s.tooLong()
			return
		}

		block := textBlock(text)
		if kind == "thinking" {
			block = thinkingBlock(text, "")
		}

		s.late = append(s.late, block)

		return
	}

	s.write(kind, text)
}

// write starts a block of the kind, unless it is open, and writes a text to it.
func (s *messageStream) write(kind, text string) {
	if s.open != kind {
		s.closeBlock()

		block := textBlock("")
		if kind == "thinking" {
			block = thinkingBlock("", "")
		}

		s.openBlock(kind, block)
	}

	s.delta(map[string]any{"type": kind + "_delta", kind: text})
}

func (s *messageStream) openBlock(kind string, block contentBlock) {
	s.open = kind
	s.event("content_block_start", map[string]any{"index": s.index, "content_block": block})
}

func (s *messageStream) delta(delta map[string]any) {
	s.event("content_block_delta", map[string]any{"index": s.index, "delta": delta})
}

func (s *messageStream) closeBlock() {
	if s.open == "" {
		return
	}

	if s.open == "thinking" {
		s.delta(map[string]any{"type": "signature_delta", "signature": carried{Model: s.answered.Model, Field: s.field}.opaque()})
	}

	s.event("content_block_stop", map[string]any{"index": s.index})
	s.open = ""
	s.index++
}

// callPiece takes a piece of a tool call. The first incomplete call is streamed; others are
// buffered until it is complete.
func (s *messageStream) callPiece(piece callPiece) {
	var one *streamedCall

	for _, c := range s.calls { // the last one at the index
		if c.index == piece.place {
			one = c
		}
	}

	if one == nil || piece.begins(one.id, one.arguments.Bytes()) {
		if len(s.calls) == maxCalls {
			s.tooLong()
			return
		}

		one = &streamedCall{index: piece.place, members: modelmembers.Members{}}
		s.calls = append(s.calls, one)
	}

	if one.id == "" {
		one.id = piece.id
	}

	if one.name == "" {
		one.name = piece.name
	}

	if s.size += len(piece.arguments); s.size > maxArguments {
		s.tooLong()
		return
	}

	one.members.AddCall(piece.of, false)
	one.arguments.WriteString(piece.arguments)
	s.writeCalls()
}

// writeCalls writes the available parts of the calls.
func (s *messageStream) writeCalls() {
	for s.done < len(s.calls) {
		one := s.calls[s.done]
		if one.name == "" {
			return // a later piece contains it
		}

		s.writeCall(one)

		if s.done+1 == len(s.calls) || !isObject(one.arguments.String()) {
			return
		}

		s.closeBlock()
		s.done++
	}
}

func (s *messageStream) writeCall(one *streamedCall) {
	if s.open != "tool_use" {
		s.closeBlock()
		one.id = callID(one.id)
		s.openBlock("tool_use", contentBlock{Type: "tool_use", ID: one.id, Name: one.name, Input: json.RawMessage("{}")})
	}

	if rest := one.arguments.Bytes()[one.sent:]; len(rest) > 0 {
		s.delta(map[string]any{"type": "input_json_delta", "partial_json": string(rest)})

		one.sent = one.arguments.Len()
	}
}

func (s *messageStream) End() {
	if s.over {
		return
	}

	s.begin()

	cut := s.ended.Get("finish_reason").String() == "length"
	for ; s.done < len(s.calls); s.done++ {
		one := s.calls[s.done]
		if one.name == "" {
			s.fail("api_error", noName, "source_error")
			return
		}

		s.writeCall(one)

		arguments := one.arguments.String()
		if strings.TrimSpace(arguments) != "" && !isObject(arguments) && (!cut || s.done+1 < len(s.calls)) {
			s.fail("api_error", badArguments, "source_error")
			return
		}

		s.closeBlock()
	}

	for _, block := range s.late {
		if block.Thinking != nil {
			s.write("thinking", *block.Thinking)
		} else {
			s.write("text", *block.Text)
		}
	}

	s.closeBlock()
	s.writeCarried()

	reason, sequence := stopReason(s.ended, s.stops, len(s.calls) > 0, s.refused)
	s.event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": reason, "stop_sequence": sequence},
		"usage": s.answered.messageUsage(s.usage),
	})
	s.event("message_stop", map[string]any{})
	s.over = true
}

// writeCarried writes the members that the source needs back.
func (s *messageStream) writeCarried() {
	c := carried{Model: s.answered.Model, Field: s.field, Message: s.members.Text()}
	for _, one := range s.calls {
		c.call(one.id, one.members)
	}

	if c.needed() {
		s.openBlock("redacted_thinking", carriedBlock(c))
		s.closeBlock()
	}
}

func (s *messageStream) Finish() {
	if s.ended.Exists() {
		s.End()
	}
}

func (s *messageStream) tooLong() {
	s.fail("api_error", "the tool calls of the source are too long", "source_error")
}

func (s *messageStream) fail(kind, message, code string) {
	s.event("error", map[string]any{"error": messageFault{Type: kind, Message: message, Code: code}, "request_id": s.id})
	s.over = true
}

// event writes an event; after the last one it writes nothing.
func (s *messageStream) event(name string, fields map[string]any) {
	if s.over || s.err != nil {
		return
	}

	fields["type"] = name

	text, err := json.Marshal(fields)
	if err != nil {
		s.err = err
		return
	}

	_, s.err = s.out.Write([]byte("event: " + name + "\ndata: " + string(text) + "\n\n"))
}
