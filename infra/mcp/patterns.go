package mcp

import "regexp"

// withoutPatterns removes the patterns of a schema that Go's regular expressions do not support,
// such as those with a look-ahead, and reports whether it removed any. The server checks them
// itself. The model server does not receive them, because many translate patterns with
// expressions of the same kind. The remaining schema accepts every value that the original
// accepts.
func withoutPatterns(schema any) bool {
	removed := false

	switch node := schema.(type) {
	case []any:
		for _, item := range node {
			removed = withoutPatterns(item) || removed
		}
	case map[string]any:
		removed = removePatterns(node)
		for keyword, value := range node {
			if withoutPatternsOf(keyword, value) {
				removed = true

				loosen(node, keyword)
			}
		}
	}

	return removed
}

// removePatterns removes the unsupported patterns of one schema, without its subschemas.
func removePatterns(node map[string]any) bool {
	removed := false

	if pattern, ok := node["pattern"].(string); ok && !compiles(pattern) {
		delete(node, "pattern")

		removed = true
	}

	named, _ := node["patternProperties"].(map[string]any)
	for pattern := range named {
		if !compiles(pattern) {
			delete(named, pattern)
			// Members that match the patterns would now count as additional.
			delete(node, "additionalProperties")
			delete(node, "unevaluatedProperties")

			removed = true
		}
	}

	return removed
}

// withoutPatternsOf removes the patterns from the value of a schema's keyword.
func withoutPatternsOf(keyword string, value any) bool {
	switch keyword {
	case "const", "default", "enum", "example", "examples": // data
		return false
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		removed := false

		named, _ := value.(map[string]any)
		for _, member := range named {
			removed = withoutPatterns(member) || removed
		}

		return removed
	default:
		return withoutPatterns(value)
	}
}

// loosen removes keywords that would reject more now that the schema of a keyword accepts more.
func loosen(node map[string]any, keyword string) {
	switch keyword {
	case "not", "oneOf":
		delete(node, keyword)
	case "if":
		delete(node, "if")
		delete(node, "then")
		delete(node, "else")
	case "contains":
		delete(node, "maxContains")
	}
}

func compiles(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}
