package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxConversions bounds the rounds of a conversion: a list that came as text can hold
// values that came as texts.
const maxConversions = 4

// convert converts the values of arguments that have another type than the schema asks
// for: texts to the numbers, booleans, lists and objects that they spell, and null to a
// member that is left out. It changes the value, and reports false when what results does
// not fit, or could be read in another way.
func (s *schema) convert(value any, err error) (json.RawMessage, bool) {
	for range maxConversions {
		invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
		if !ok {
			return nil, false
		}

		wanted := map[string]*mistyped{}
		findMistyped(invalid, wanted)

		converted := false

		for _, m := range wanted {
			converted = m.convert(value) || converted
		}

		if !converted {
			return nil, false
		}

		if err = s.compiled.Validate(value); err == nil {
			return encoded(value)
		}
	}

	return nil, false
}

func encoded(value any) (json.RawMessage, bool) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)

	return bytes.TrimSpace(out.Bytes()), err == nil
}

// mistyped is a value with another type than the schema allows.
type mistyped struct {
	at   []string
	want []string
}

func findMistyped(e *jsonschema.ValidationError, found map[string]*mistyped) {
	for _, cause := range e.Causes {
		findMistyped(cause, found)
	}

	k, ok := e.ErrorKind.(*kind.Type)
	if !ok || len(e.InstanceLocation) == 0 {
		return
	}

	place := strings.Join(e.InstanceLocation, "\x00")
	if found[place] == nil {
		found[place] = &mistyped{at: e.InstanceLocation}
	}

	found[place].want = append(found[place].want, k.Want...)
}

// convert converts the value within the arguments, if it has one reading.
func (m *mistyped) convert(arguments any) bool {
	parent := arguments
	for _, name := range m.at[:len(m.at)-1] {
		parent = member(parent, name)
	}

	last := m.at[len(m.at)-1]

	switch value := member(parent, last).(type) {
	case nil:
		object, ok := parent.(map[string]any)
		delete(object, last)

		return ok
	case string:
		read, ok := m.reading(value)
		if ok {
			set(parent, last, read)
		}

		return ok
	default:
		return false
	}
}

// reading returns the value of a wanted type that a text spells. A number is a reading as an
// integer, too.
func (m *mistyped) reading(text string) (any, bool) {
	text = strings.TrimSpace(text)
	if text == "null" || text == "" {
		return nil, false
	}

	_, value, err := parseRepaired(text)
	if err != nil {
		return nil, false
	}

	switch value.(type) {
	case json.Number:
		return value, slices.Contains(m.want, "integer") || slices.Contains(m.want, "number")
	case bool:
		return value, slices.Contains(m.want, "boolean")
	case []any:
		return value, slices.Contains(m.want, "array")
	case map[string]any:
		return value, slices.Contains(m.want, "object")
	default:
		return nil, false
	}
}

func member(parent any, name string) any {
	switch parent := parent.(type) {
	case map[string]any:
		return parent[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(parent) {
			return parent[i]
		}
	}

	return nil
}

func set(parent any, name string, value any) {
	switch parent := parent.(type) {
	case map[string]any:
		parent[name] = value
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(parent) {
			parent[i] = value
		}
	}
}
