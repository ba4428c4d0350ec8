package httpx

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// Go's decoder takes CONTENT for content, and puts together the parts of a field
// that is there twice: what is used would not be what was checked. Bodies are
// therefore checked and read by the exact names, each with its last value.
func init() {
	huma.ValidateStrictCasing = true

	for name, format := range huma.DefaultFormats {
		format.Unmarshal = unmarshalExactly
		huma.DefaultFormats[name] = format
	}
}

// unmarshalExactly is json.Unmarshal for a type with declared fields, but that a
// name in another case is an unknown one, and that of equal names only the last
// counts.
func unmarshalExactly(data []byte, v any) error {
	target := reflect.TypeOf(v).Elem()
	if target.Kind() == reflect.Interface || opaque(target) {
		return json.Unmarshal(data, v)
	}

	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()

	var free any
	if err := decoder.Decode(&free); err != nil {
		return json.Unmarshal(data, v) // whose error says it
	}

	pairs := 0
	if !foreign(free, target, &pairs) && pairs == colons(data) {
		return json.Unmarshal(data, v)
	}

	exact, err := json.Marshal(free)
	if err != nil {
		return err
	}

	return json.Unmarshal(exact, v)
}

// opaque types read their JSON themselves.
func opaque(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// foreign removes from a decoded value the names that only look like fields of
// the type, and reports whether there were some. It counts the names that it saw.
func foreign(value any, t reflect.Type, pairs *int) (found bool) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	if t != nil && opaque(t) {
		t = nil // anything may be in it
	}

	switch value := value.(type) {
	case map[string]any:
		*pairs += len(value)
		for name, inner := range value {
			declared, looksLike := elementOf(t, name)
			found = foreign(inner, declared, pairs) || found

			if looksLike {
				delete(value, name)

				found = true
			}
		}
	case []any:
		var element reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			element = t.Elem()
		}

		for _, inner := range value {
			found = foreign(inner, element, pairs) || found
		}
	}

	return found
}

// elementOf gives the type that a name has in a type, nil for any, and whether
// the name is none of its fields but would be taken for one.
func elementOf(t reflect.Type, name string) (declared reflect.Type, looksLike bool) {
	switch {
	case t == nil:
		return nil, false
	case t.Kind() == reflect.Map:
		return t.Elem(), false
	case t.Kind() != reflect.Struct:
		return nil, false
	}

	fields := namesOf(t)
	if field, ok := fields[name]; ok {
		return field, false
	}

	for known := range fields {
		if strings.EqualFold(known, name) {
			return nil, true
		}
	}

	return nil, false
}

var namesByType sync.Map // of reflect.Type to map[string]reflect.Type

// namesOf returns the fields of a struct by their names in JSON.
func namesOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := namesByType.Load(t); ok {
		return known.(map[string]reflect.Type)
	}

	names := map[string]reflect.Type{}

	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous || !field.IsExported() || name == "-":
			continue
		case name == "":
			name = field.Name
		}

		names[name] = field.Type
	}

	namesByType.Store(t, names)

	return names
}

// colons counts the names of all objects in a valid JSON text, each time that
// they are there.
func colons(data []byte) (n int) {
	for i, inText := 0, false; i < len(data); i++ {
		switch c := data[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case c == ':' && !inText:
			n++
		}
	}

	return n
}
