package mock

import (
	"encoding/json"
	"strings"
)

const maxSampleDepth = 8

// sample returns JSON text that matches a JSON Schema in types, enums, required properties,
// lengths and bounds. It ignores patterns.
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

	for _, name := range []string{"const", "default"} {
		if v, ok := schema[name]; ok {
			return v
		}
	}

	if ref, ok := schema["$ref"].(string); ok {
		return s.value(s.resolve(ref), depth+1)
	}

	for _, name := range []string{"enum", "examples", "anyOf", "oneOf", "allOf"} {
		if list, ok := schema[name].([]any); ok && len(list) > 0 {
			if name == "enum" || name == "examples" {
				return list[0]
			}

			return s.value(list[0], depth+1)
		}
	}

	switch schemaType(schema) {
	case "object":
		return s.object(schema, depth)
	case "array":
		items := make([]any, int(max(number(schema, "minItems", 1), 0)))
		for i := range items {
			items[i] = s.value(schema["items"], depth+1)
		}

		return items
	case "string":
		return sampleText(schema)
	case "integer", "number":
		n := max(number(schema, "minimum", 1), number(schema, "exclusiveMinimum", 0)+1)
		return min(n, number(schema, "maximum", n), number(schema, "exclusiveMaximum", n+1)-1)
	case "boolean":
		return true
	}

	return nil
}

func schemaType(schema map[string]any) string {
	kind := schema["type"]
	if list, ok := kind.([]any); ok && len(list) > 0 {
		kind = list[0]
	}

	if name, ok := kind.(string); ok {
		return name
	}

	if schema["items"] != nil {
		return "array"
	}

	return "object"
}

// object fills the required properties, or all if none are required.
func (s sampler) object(schema map[string]any, depth int) any {
	properties, _ := schema["properties"].(map[string]any)
	out := make(map[string]any, len(properties))

	if required, ok := schema["required"].([]any); ok && len(required) > 0 {
		for _, r := range required {
			if name, ok := r.(string); ok {
				out[name] = s.value(properties[name], depth+1)
			}
		}

		return out
	}

	for name, property := range properties {
		out[name] = s.value(property, depth+1)
	}

	return out
}

var sampleFormats = map[string]string{
	"date-time": "2026-01-01T12:00:00Z", "date": "2026-01-01", "time": "12:00:00Z", "email": "demo@example.org",
	"uri": "https://example.org/", "url": "https://example.org/", "uuid": "00000000-0000-4000-8000-000000000000",
}

func sampleText(schema map[string]any) string {
	format, _ := schema["format"].(string)
	if text, ok := sampleFormats[format]; ok {
		return text
	}
	text := "scripted demo answer"
	text += strings.Repeat(".", max(min(int(number(schema, "minLength", 0)), 10_000)-len(text), 0))
	if n := int(number(schema, "maxLength", float64(len(text)))); n >= 0 && n < len(text) {
		text = text[:n]
	}
	return text
}

func number(schema map[string]any, name string, fallback float64) float64 {
	if n, ok := schema[name].(float64); ok && n < 1e6 {
		return n
	}
	return fallback
}

// resolve follows a reference inside the schema, such as #/$defs/name.
func (s sampler) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	var node any = s.root
	for part := range strings.SplitSeq(path, "/") {
		object, _ := node.(map[string]any)
		node = object[part]
	}
	return node
}
