package openapi

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// exampleTime is every time in the examples.
const exampleTime = "2026-11-21T18:34:12.705966Z"

// exampleOf builds an example of a schema from the examples of its fields. What has
// none gets a plain value of its type.
func exampleOf(schemas huma.Registry, schema *huma.Schema) any {
	return example(schemas, schema, nil)
}

// example remembers the schemas that it is inside of: one that contains itself ends
// there with null or an empty list.
func example(schemas huma.Registry, schema *huma.Schema, inside []string) any {
	if len(schema.Examples) > 0 {
		return schema.Examples[0]
	}

	if schema.Ref != "" {
		if slices.Contains(inside, schema.Ref) {
			return nil
		}

		return example(schemas, schemas.SchemaFromRef(schema.Ref), append(slices.Clone(inside), schema.Ref))
	}

	if len(schema.AnyOf) > 0 { // an object, or null
		return example(schemas, schema.AnyOf[0], inside)
	}

	if schema.Default != nil {
		return schema.Default
	}

	if len(schema.Enum) > 0 {
		return schema.Enum[0]
	}

	switch schema.Type {
	case huma.TypeObject:
		fields := map[string]any{}

		for name, property := range schema.Properties {
			value := example(schemas, property, inside)
			if value != nil || slices.Contains(schema.Required, name) {
				fields[name] = value
			}
		}

		return fields
	case huma.TypeArray:
		if item := example(schemas, schema.Items, inside); item != nil {
			return []any{item}
		}

		return []any{}
	case huma.TypeBoolean:
		return false
	case huma.TypeInteger, huma.TypeNumber:
		if schema.Minimum != nil {
			return *schema.Minimum
		}

		return 0
	case huma.TypeString:
		if schema.Format == "date-time" {
			return exampleTime
		}

		return "text"
	default: // of any type
		return map[string]any{}
	}
}

// isJSON reports whether a content type is JSON.
func isJSON(contentType string) bool { return strings.HasSuffix(contentType, "json") }
