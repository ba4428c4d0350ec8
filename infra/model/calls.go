package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"everloop/domain"
)

// assembler puts tool calls together from their fragments. The interface names
// the call by its index, with id and name in the first fragment only. Servers
// differ: some leave the index out, some send whole calls with index 0 each,
// some repeat the name or make up a new id for each fragment.
type assembler struct {
	calls   []*building
	byIndex map[int]*building
	bytes   int
}

type building struct {
	id, name  string
	arguments strings.Builder
}

// add takes one fragment.
func (a *assembler) add(d callDelta) *domain.ModelError {
	call := a.find(d)
	if call == nil {
		if len(a.calls) >= maxToolCalls {
			return refused(fmt.Sprintf("the model asked for more than %d tool calls at once", maxToolCalls))
		}

		call = &building{id: d.ID}

		a.calls = append(a.calls, call)
		if d.Index != nil {
			if a.byIndex == nil {
				a.byIndex = make(map[int]*building)
			}

			a.byIndex[*d.Index] = call
		}
	}

	if call.id == "" {
		call.id = d.ID
	}
	// A name may come in pieces, but only before the arguments; a server that
	// repeats it sends it whole.
	if name := d.Function.Name; name != call.name && call.arguments.Len() == 0 {
		call.name += name
	}

	if a.bytes += len(d.ID) + len(d.Function.Arguments) + len(d.Function.Name); a.bytes > maxTextBytes {
		return refused(fmt.Sprintf("the arguments of the model's tool calls exceed %d bytes", maxTextBytes))
	}

	call.arguments.WriteString(string(d.Function.Arguments))

	return nil
}

// find gives the call that a fragment continues, nil for a new one.
func (a *assembler) find(d callDelta) *building {
	if call := a.candidate(d); call != nil && !call.before(d) {
		return call
	}

	return nil
}

// before reports whether a fragment is another call although its index or id is
// this one's: it has a name and arguments of its own, and these are complete.
func (b *building) before(d callDelta) bool {
	return d.Function.Name != "" && strings.HasPrefix(string(d.Function.Arguments), "{") && b.arguments.Len() > 0 &&
		json.Valid([]byte(b.arguments.String()))
}

func (a *assembler) candidate(d callDelta) *building {
	if d.Index != nil {
		call := a.byIndex[*d.Index]
		if call != nil && d.ID != "" && call.id != "" && d.ID != call.id && d.Function.Name != "" {
			return nil // another whole call under an index that was used before
		}

		return call
	}

	if d.ID != "" {
		for _, call := range slices.Backward(a.calls) { // where an id repeats, the last call has it
			if call.id == d.ID {
				return call
			}
		}
	}

	if d.Function.Name != "" || len(a.calls) == 0 {
		return nil
	}

	return a.calls[len(a.calls)-1]
}

// finish gives the calls in the order in which they began, each with arguments
// and with the id that the server gave it, if it gave one.
func (a *assembler) finish() ([]domain.RequestedCall, *domain.ModelError) {
	var out []domain.RequestedCall

	for _, call := range a.calls {
		if call.name == "" {
			return nil, transient("the model server sent a tool call without a name")
		}

		if !domain.KeepableCallID(call.id) {
			call.id = ""
		}

		arguments := call.arguments.String()
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}

		out = append(out, domain.RequestedCall{ID: call.id, Name: call.name, Arguments: arguments})
	}

	return out, nil
}
