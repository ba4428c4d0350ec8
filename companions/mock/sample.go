package mock

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const maxSampleDepth = 8

// sample makes JSON text that fits a JSON Schema, as far as types, enums,
// required properties, lengths and bounds go; patterns are not followed.
func sample(schema json.RawMessage) string {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil {
		root = map[string]any{}
	}

	text, err := json.Marshal(sampler{root}.value(root, 0))
	if err != nil {
		return "{}"
	}

	return string(text)
}

type sampler struct{ root map[string]any }

func (s sampler) value(node any, depth int) any {
	schema, ok := node.(map[string]any)
	if !ok || depth > maxSampleDepth {
		return nil
	}

	for _, fixed := range []string{"const", "default"} {
		if v, ok := schema[fixed]; ok {
			return v
		}
	}

	for _, list := range []string{"enum", "examples"} {
		if v, ok := schema[list].([]any); ok && len(v) > 0 {
			return v[0]
		}
	}

	if ref, ok := schema["$ref"].(string); ok {
		return s.value(s.resolve(ref), depth+1)
	}

	for _, list := range []string{"anyOf", "oneOf", "allOf"} {
		if v, ok := schema[list].([]any); ok && len(v) > 0 {
			return s.value(v[0], depth+1)
		}
	}

	switch kind(schema) {
	case "object":
		return s.object(schema, depth)
	case "array":
		items := make([]any, int(max(number(schema, "minItems", 1), 0)))
		for i := range items {
			items[i] = s.value(schema["items"], depth+1)
		}

		return items
	case "string":
		return word(schema)
	case "integer", "number":
		n := max(number(schema, "minimum", 1), number(schema, "exclusiveMinimum", 0)+1)
		return min(n, number(schema, "maximum", n), number(schema, "exclusiveMaximum", n+1)-1)
	case "boolean":
		return true
	}

	return nil
}

func kind(schema map[string]any) string {
	switch t := schema["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			name, _ := t[0].(string)
			return name
		}
	}

	if schema["items"] != nil {
		return "array"
	}

	return "object"
}

// object fills the required properties, or all where none is required.
func (s sampler) object(schema map[string]any, depth int) any {
	properties, _ := schema["properties"].(map[string]any)

	names := slices.Sorted(maps.Keys(properties))
	if required, ok := schema["required"].([]any); ok && len(required) > 0 {
		names = names[:0]

		for _, r := range required {
			if name, ok := r.(string); ok {
				names = append(names, name)
			}
		}
	}

	out := make(map[string]any, len(names))
	for _, name := range names {
		out[name] = s.value(properties[name], depth+1)
	}

	return out
}

func word(schema map[string]any) string {
	format, _ := schema["format"].(string)
	switch format {
	case "date-time":
		return "2026-01-01T12:00:00Z"
	case "date":
		return "2026-01-01"
	case "time":
		return "12:00:00Z"
	case "email":
		return "demo@example.org"
	case "uri", "url":
		return "https://example.org/"
	case "uuid":
		return "00000000-0000-4000-8000-000000000000"
	}

	text := "scripted demo answer"
	if short := int(number(schema, "minLength", 0)); short > len(text) {
		text += strings.Repeat(".", min(short, 10_000)-len(text))
	}

	if long := int(number(schema, "maxLength", float64(len(text)))); long >= 0 && long < len(text) {
		text = text[:long]
	}

	return text
}

func number(schema map[string]any, name string, otherwise float64) float64 {
	if n, ok := schema[name].(float64); ok && n < 1e6 {
		return n
	}

	return otherwise
}

// resolve follows a reference inside the schema, as #/$defs/name.
func (s sampler) resolve(ref string) any {
	path, found := strings.CutPrefix(ref, "#/")
	if !found {
		return nil
	}

	var node any = s.root
	for part := range strings.SplitSeq(path, "/") {
		object, ok := node.(map[string]any)
		if !ok {
			return nil
		}

		node = object[part]
	}

	return node
}
