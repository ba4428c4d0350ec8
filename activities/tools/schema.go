package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Parameters returns the JSON Schema of a tool's arguments, from their struct:
//
//   - A field that is not omitempty is required.
//   - The tag jsonschema is what the model reads about the field.
//   - The tag limits bounds the length of a string, the items of an array or the value of
//     a number, as in `limits:"1..100"`, `limits:"..100"` or `limits:"1.."`.
//   - The tag each bounds the items of an array.
//   - The tag enum lists the values of a string, as in `enum:"a|b"`.
//
// What tags cannot say, adjust does. It panics if a tag is wrong, which every test of the
// registry finds.
func Parameters[T any](adjust ...func(*jsonschema.Schema)) json.RawMessage {
	schema, err := jsonschema.For[T](nil)
	if err == nil {
		err = applyLimits(schema, reflect.TypeFor[T]())
	}

	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", reflect.TypeFor[T](), err))
	}

	for _, f := range adjust {
		f(schema)
	}

	raw, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", reflect.TypeFor[T](), err))
	}

	return raw
}

// applyLimits adds the limits of a type's fields to its schema. Pointers and slices may
// not be null: the field is left out instead.
func applyLimits(schema *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()

		if schema.Items != nil {
			schema = schema.Items
		}
	}

	if t.Kind() != reflect.Struct {
		return nil
	}

	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")

		property := schema.Properties[name]
		if property == nil {
			continue
		}

		if len(property.Types) == 2 && property.Types[0] == "null" {
			property.Type, property.Types = property.Types[1], nil
		}

		if err := addLimits(property, field.Tag.Get("limits")); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}

		if err := addLimits(property.Items, field.Tag.Get("each")); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}

		if values, ok := field.Tag.Lookup("enum"); ok {
			for value := range strings.SplitSeq(values, "|") {
				property.Enum = append(property.Enum, value)
			}
		}

		if err := applyLimits(property, field.Type); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
	}

	return nil
}

// addLimits adds the limits of one value.
func addLimits(schema *jsonschema.Schema, limits string) error {
	if limits == "" {
		return nil
	}

	least, most, isRange := strings.Cut(limits, "..")
	low, err := bound(least)

	high, err2 := bound(most)
	if err := errors.Join(err, err2); err != nil || !isRange || schema == nil {
		return fmt.Errorf("limits %q are not valid here", limits)
	}

	switch schema.Type {
	case "string":
		schema.MinLength, schema.MaxLength = low, high
	case "array":
		schema.MinItems, schema.MaxItems = low, high
	case "integer", "number":
		schema.Minimum, schema.Maximum = number64(low), number64(high)
	default:
		return fmt.Errorf("limits %q are not valid for type %s", limits, schema.Type)
	}

	return nil
}

// bound reads one bound; nil: there is none.
func bound(text string) (*int, error) {
	if text == "" {
		return nil, nil
	}

	n, err := strconv.Atoi(text)

	return &n, err
}

func number64(n *int) *float64 {
	if n == nil {
		return nil
	}

	return new(float64(*n))
}
