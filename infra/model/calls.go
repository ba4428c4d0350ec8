package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"everloop/domain"
	"everloop/internal/modelmembers"
)

// assembler joins tool calls from their fragments. The API identifies a call by its index, with
// id and name in the first fragment only. Servers differ: some omit the index, send whole calls
// with index 0 each, repeat the name, use a new id in each fragment, repeat a complete call, or
// send the arguments so far in each fragment.
type assembler struct {
	calls []*building
	bytes int
	chunk int // number of the current chunk
}

// building is an incomplete call.
type building struct {
	index    int64
	indexed  bool
	id, name string
	chunk    int // of its first fragment

	arguments strings.Builder // concatenated fragments
	last      string          // the last fragment
	fragments int
	sofar     bool // each fragment starts with the previous one

	members modelmembers.Members
}

// read adds the fragments of one chunk.
func (a *assembler) read(calls gjson.Result) *domain.ModelError {
	a.chunk++

	for _, call := range calls.Array() {
		if err := a.add(readFragment(call)); err != nil {
			return err
		}
	}

	return nil
}

// add adds one fragment.
func (a *assembler) add(f fragment) *domain.ModelError {
	call := a.find(f)
	if call == nil && f.empty() {
		return nil
	}

	if call == nil {
		if len(a.calls) >= maxToolCalls {
			return refused(fmt.Sprintf("the model asked for more than %d tool calls at once", maxToolCalls))
		}

		call = &building{id: f.id, chunk: a.chunk, members: modelmembers.Members{}}
		a.calls = append(a.calls, call)
	}

	call.members.AddCall(f.of, false)

	if !call.indexed {
		call.index, call.indexed = f.index, f.indexed
	}

	if call.id == "" {
		call.id = f.id
	}

	// A name can arrive in pieces, but only before the arguments; a server that repeats it sends
	// it whole.
	if f.name != call.name && (call.name == "" || call.arguments.Len() == 0) {
		call.name += f.name
	}

	if a.bytes += len(f.id) + len(f.name) + call.take(f); a.bytes > maxTextBytes {
		return refused(fmt.Sprintf("the arguments of the model's tool calls exceed %d bytes", maxTextBytes))
	}

	return nil
}

// maxSoFar is the number of fragments with cumulative arguments that are buffered to detect that
// they are not deltas.
const maxSoFar = 4

// take adds the arguments of a fragment and returns the number of added bytes.
func (b *building) take(f fragment) int {
	if f.arguments == "" || f.object && f.arguments == "{}" && b.fragments > 0 {
		return 0
	}

	before := b.arguments.Len()

	b.sofar = b.fragments == 0 || b.sofar && strings.HasPrefix(f.arguments, b.last)
	b.last = f.arguments
	b.fragments++

	if f.object || b.sofar && b.fragments > maxSoFar && strings.HasPrefix(f.arguments, "{\"") {
		b.arguments.Reset()
	}

	b.arguments.WriteString(f.arguments)

	return b.arguments.Len() - before
}

// find returns the call that a fragment continues; nil: a new one.
func (a *assembler) find(f fragment) *building {
	if call := a.candidate(f); call != nil && !call.before(f) {
		return call
	}

	return nil
}

// before reports whether a fragment starts another call although its index or id equals this
// call's: it has a name, and this call is complete.
func (b *building) before(f fragment) bool {
	switch f.name {
	case "":
		return false
	case b.name:
		return strings.HasPrefix(f.arguments, "{") && f.arguments != b.last && isObject(b.arguments.String())
	}

	return (b.name != "" || f.arguments != "") && isObject(b.arguments.String())
}

func (a *assembler) candidate(f fragment) *building {
	var last *building
	if len(a.calls) > 0 {
		last = a.calls[len(a.calls)-1]
	}

	for _, call := range slices.Backward(a.calls) { // of equal indexes or ids, the last call matches
		switch {
		case f.indexed && call.indexed && f.index == call.index:
			if f.id != "" && call.id != "" && f.id != call.id && f.name != "" && call.name != "" {
				return nil // another complete call with a used index
			}

			return call
		case f.indexed && call.indexed: // another call
		case f.id != "" && f.id == call.id:
			return call
		}
	}

	if last == nil || !last.continues(f) {
		return nil
	}

	return last
}

// continues reports whether a fragment without a known id or index belongs to the last call.
func (b *building) continues(f fragment) bool {
	complete, numbered := isObject(b.arguments.String()), b.indexed && f.indexed

	switch {
	case f.name == "" && f.id == "":
		return !complete || !numbered
	case f.name == "":
		return !numbered && !(complete && strings.HasPrefix(f.arguments, "{"))
	case b.name == "": // the name arrives late
		return !numbered && (b.id == "" || f.id == "") && (!complete || f.arguments == "")
	}

	return false
}

// whole adds the calls of a whole message that arrived after its deltas. It skips calls that the
// deltas contain.
func (a *assembler) whole(calls gjson.Result) *domain.ModelError {
	if len(a.calls) == 0 {
		return a.read(calls)
	}

	a.chunk++

	for i, one := range calls.Array() {
		f := readFragment(one)
		f.indexed = false

		call := a.same(i, f)

		switch {
		case call != nil:
			call.members.AddCall(f.of, true)

			if arguments := call.whole(); !isObject(arguments) && isObject(f.arguments) {
				call.arguments.Reset()
				call.arguments.WriteString(f.arguments)
			}
		case i >= len(a.calls) && !f.empty():
			if err := a.add(f); err != nil {
				return err
			}
		}
	}

	return nil
}

// same returns the call at an index of a whole message, or nil.
func (a *assembler) same(place int, f fragment) *building {
	for _, call := range a.calls {
		if f.id != "" && f.id == call.id && f.name == call.name {
			return call
		}
	}

	if place < len(a.calls) && a.calls[place].name == f.name {
		return a.calls[place]
	}

	return nil
}

// finish returns the calls in order, each with its arguments and the server's id, if any. It
// includes calls without a name, because the model must receive an error for them.
func (a *assembler) finish() []domain.RequestedCall {
	a.sort()

	var out []domain.RequestedCall

	for i, call := range a.calls {
		arguments := call.whole()
		if call.name == "" && call.id == "" && arguments == "{}" || slices.ContainsFunc(a.calls[:i], call.repeats) {
			continue
		}

		if !domain.KeepableCallID(call.id) {
			call.id = ""
		}

		out = append(out, domain.RequestedCall{ID: call.id, Name: call.name, Arguments: arguments, ServerMembers: call.members.Text()})
	}

	return out
}

// sort sorts the calls by index if all indexes are distinct.
func (a *assembler) sort() {
	indexes := map[int64]bool{}

	for _, call := range a.calls {
		if !call.indexed || indexes[call.index] {
			return
		}

		indexes[call.index] = true
	}

	slices.SortStableFunc(a.calls, func(x, y *building) int { return int(x.index - y.index) })
}

// repeats reports whether a call is a repetition of an earlier one. Calls without ids are
// distinguished by index, and by being in one chunk.
func (b *building) repeats(earlier *building) bool {
	if b.id != earlier.id || b.name != earlier.name || !sameJSON(b.whole(), earlier.whole()) {
		return false
	}

	return b.id != "" || b.chunk != earlier.chunk && b.indexed == earlier.indexed && b.index == earlier.index
}

// whole returns the arguments: the concatenation of all fragments, or the last fragment if
// fragments are cumulative. A repeated value is returned once.
func (b *building) whole() string {
	text := joinedText(b.arguments.String())
	if b.fragments > 1 && b.sofar && json.Valid([]byte(b.last)) && !json.Valid([]byte(text)) {
		return strings.TrimSpace(b.last)
	}

	if values := objects(
		text,
	); len(values) > 0 &&
		!slices.ContainsFunc(values[1:], func(v string) bool { return !sameJSON(v, values[0]) }) {
		return values[0]
	}

	if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed == "null" {
		return "{}"
	}

	return text
}

// joinedText joins the surrogate halves in a text.
func joinedText(raw string) string {
	var whole joiner
	return whole.add(raw) + whole.flush()
}

// objects splits a text into its JSON objects; nil: it is not a sequence of objects. Empty
// objects are placeholders for arguments in other fragments.
func objects(text string) (values []string) {
	decoder := json.NewDecoder(strings.NewReader(text))

	for decoder.More() {
		var value json.RawMessage
		if decoder.Decode(&value) != nil || value[0] != '{' {
			return nil
		}

		values = append(values, string(value))
	}

	if len(values) < 2 {
		return nil
	}

	if filled := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "{}" }); len(filled) > 0 {
		return filled
	}

	return values
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}

// sameJSON reports whether two texts are the same JSON, or equal.
func sameJSON(a, b string) bool {
	return a == b || canonical(a) == canonical(b)
}

func canonical(text string) string {
	if !json.Valid([]byte(text)) {
		return text
	}

	var value any

	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()

	if decoder.Decode(&value) != nil {
		return text
	}

	out, err := json.Marshal(value)
	if err != nil {
		return text
	}

	return string(out)
}
