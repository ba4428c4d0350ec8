package chatrequest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"everloop/domain"
)

// Decode reads the JSON object of a request into the struct that target points to.
// Names are exact, null counts as absent, unknown fields are ignored. Its error is a
// *domain.Error with the code invalid_request that names the first field at fault, in
// the order of the declaration. The rules are in the tags of the fields:
//
//   - required: the field must be present.
//   - minLength, of a string: it must not be empty.
//   - maxLength, of a string: the maximum in bytes, without NUL.
//   - enum: the values of a string.
//   - default: the value of an absent string.
//   - maximum: of a whole number, which is never negative.
func Decode(raw json.RawMessage, target any) error { return decode("body", raw, target) }

// decode is Decode for an object at a location of the request.
func decode(at string, raw json.RawMessage, target any) error {
	return decodeStruct(at, raw, reflect.ValueOf(target).Elem())
}

// reader is implemented by fields that parse their own JSON, which is neither absent nor null.
type reader interface {
	read(at string, raw json.RawMessage) error
}

func decodeStruct(at string, raw json.RawMessage, target reflect.Value) error {
	var values map[string]json.RawMessage
	if err := readObject(at, raw, &values); err != nil {
		return err
	}

	for _, field := range reflect.VisibleFields(target.Type()) {
		if field.Anonymous {
			continue
		}

		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")

		raw := values[name]
		if string(raw) == "null" {
			raw = nil
		}

		if err := decodeField(at+"."+name, raw, field.Tag, target.FieldByIndex(field.Index)); err != nil {
			return err
		}
	}

	return nil
}

func decodeField(at string, raw json.RawMessage, tag reflect.StructTag, target reflect.Value) error {
	isStruct := target.Kind() == reflect.Struct // required; a pointer to one is optional
	if raw == nil && !isStruct {
		if tag.Get("required") == "true" {
			return domain.Invalidf(at, "is required")
		}

		if target.Kind() == reflect.String {
			target.SetString(tag.Get("default"))
		}

		return nil
	}

	if own, ok := target.Addr().Interface().(reader); ok {
		return own.read(at, raw)
	}

	switch target.Kind() {
	case reflect.Pointer:
		value := reflect.New(target.Type().Elem())
		target.Set(value)

		return decodeField(at, raw, tag, value.Elem())
	case reflect.Struct:
		return decodeStruct(at, raw, target)
	case reflect.Slice:
		return decodeSlice(at, raw, target)
	case reflect.String:
		return decodeString(at, raw, tag, target)
	case reflect.Bool:
		return unmarshal(at, "true or false", raw, target)
	case reflect.Int:
		n, err := decodeCount(at, raw, tag, target.Type().Bits()-1)
		target.SetInt(int64(n)) //nolint:gosec // fits into an int64

		return err
	case reflect.Uint64:
		n, err := decodeCount(at, raw, tag, target.Type().Bits())
		target.SetUint(n)

		return err
	default:
		panic(fmt.Sprintf("%s: a request cannot have a %s", at, target.Type()))
	}
}

func decodeSlice(at string, raw json.RawMessage, target reflect.Value) error {
	element, what := target.Type().Elem(), "an array of strings"
	if element.Kind() == reflect.Struct {
		what = "an array of objects"
	}

	var values []json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return domain.Invalidf(at, "must be %s", what)
	}

	list := reflect.MakeSlice(target.Type(), len(values), len(values))
	for i, raw := range values {
		if element.Kind() == reflect.Struct {
			if err := decodeStruct(fmt.Sprintf("%s[%d]", at, i), raw, list.Index(i)); err != nil {
				return err
			}

			continue
		}

		if raw[0] != '"' {
			return domain.Invalidf(at, "must be %s", what)
		}

		if err := unmarshal(at, what, raw, list.Index(i)); err != nil {
			return err
		}
	}

	target.Set(list)

	return nil
}

func decodeString(at string, raw json.RawMessage, tag reflect.StructTag, target reflect.Value) error {
	if err := unmarshal(at, "a string", raw, target); err != nil {
		return err
	}

	text := target.String()
	if tag.Get("minLength") != "" && text == "" {
		return domain.Invalidf(at, "is required")
	}

	if most, ok := number(tag, "maxLength"); ok && (uint64(len(text)) > most || strings.ContainsRune(text, 0)) {
		return domain.Invalidf(at, "must have at most %d bytes and no NUL", most)
	}

	if values := tag.Get("enum"); values != "" && !slices.Contains(strings.Split(values, ","), text) {
		return domain.Invalidf(at, "must be one of %s", strings.ReplaceAll(values, ",", ", "))
	}

	return nil
}

// decodeCount parses a non-negative integer.
func decodeCount(at string, raw json.RawMessage, tag reflect.StructTag, bits int) (uint64, error) {
	n, err := strconv.ParseUint(string(raw), 10, bits)
	if most, ok := number(tag, "maximum"); err != nil || ok && n > most {
		return 0, domain.Invalidf(at, "must be a whole number, 0 or more")
	}

	return n, nil
}

// number parses a numeric tag; it panics on an invalid one.
func number(tag reflect.StructTag, name string) (n uint64, ok bool) {
	text := tag.Get(name)
	if text == "" {
		return 0, false
	}

	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}

	return n, true
}

func unmarshal(at, what string, raw json.RawMessage, target reflect.Value) error {
	if json.Unmarshal(raw, target.Addr().Interface()) != nil {
		return domain.Invalidf(at, "must be %s", what)
	}

	return nil
}

// readObject parses a JSON object into the map that target points to.
func readObject(at string, raw json.RawMessage, target any) error {
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, target) != nil {
		return domain.Invalidf(at, "must be an object")
	}

	return nil
}

// Object is any JSON object, unchanged.
type Object json.RawMessage

// Schema implements huma.SchemaProvider.
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Nullable: true, AdditionalProperties: true}
}

// read implements reader. The object is stored as it was sent, and the database does not accept
// all valid JSON.
func (o *Object) read(at string, raw json.RawMessage) error {
	if wrong := domain.UnstorableIn(at, raw); len(wrong) > 0 {
		return domain.Invalidf(wrong[0], domain.TextRule)
	}

	*o = Object(raw)

	return readObject(at, raw, &map[string]json.RawMessage{})
}
