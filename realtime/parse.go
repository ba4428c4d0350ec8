package realtime

import (
	"encoding/json"
	"strconv"

	"everloop/domain"
)

// fields reads the fields of a payload one by one and keeps the first fault.
// null counts as absent; fields that nobody asks for are ignored.
type fields struct {
	at  string // where the object stands, as "body"
	raw map[string]json.RawMessage
	err error
}

// object takes apart a payload; what is not an object is a fault.
func object(at string, payload json.RawMessage) *fields {
	f := &fields{at: at}
	if len(payload) == 0 || payload[0] != '{' || json.Unmarshal(payload, &f.raw) != nil {
		f.err = domain.Invalidf(at, "must be an object")
	}
	return f
}

// get gives a field's JSON, nil when it is absent.
func (f *fields) get(name string) json.RawMessage {
	raw := f.raw[name]
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = domain.Invalidf(f.at+"."+name, format, args...)
	}
}

// into decodes a field; false when it is absent or of another type, which is a fault.
func (f *fields) into(name, what string, value any) bool {
	raw := f.get(name)
	if raw == nil {
		return false
	}
	if err := json.Unmarshal(raw, value); err != nil {
		f.fail(name, "must be %s", what)
		return false
	}
	return true
}

func (f *fields) text(name string) string {
	var s string
	f.into(name, "a string", &s)
	return s
}

func (f *fields) flag(name string) bool {
	var b bool
	f.into(name, "true or false", &b)
	return b
}

// id is a required, non-empty string.
func (f *fields) id(name string) string {
	raw := f.get(name)
	id := f.text(name)
	if raw == nil || id == "" {
		f.fail(name, "is required")
	}
	return id
}

// oneOf is a string of a closed list; absent gives the fallback.
func (f *fields) oneOf(name, fallback string, allowed ...string) string {
	if f.get(name) == nil {
		return fallback
	}
	value := f.text(name)
	for _, a := range allowed {
		if value == a {
			return value
		}
	}
	f.fail(name, "must be one of %q", allowed)
	return fallback
}

// count is a whole number that is not negative; nil when it is absent.
func (f *fields) count(name string, bits int) *uint64 {
	raw := f.get(name)
	if raw == nil {
		return nil
	}
	n, err := strconv.ParseUint(string(raw), 10, bits)
	if err != nil {
		f.fail(name, "must be a whole number, 0 or more")
		return nil
	}
	return &n
}

// isID reports whether text can be the id of anything: ids are opaque, short
// and plain.
func isID(text string) bool {
	if text == "" || len(text) > 128 {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
