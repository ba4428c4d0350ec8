package tools

import (
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
)

func TestParameters(t *testing.T) {
	t.Parallel()

	type item struct {
		Name string `json:"name" limits:"1.."`
	}

	type arguments struct {
		Text  string   `json:"text" jsonschema:"What it works on" limits:"1..10"`
		Mode  *string  `json:"mode,omitempty" enum:"a|b"`
		Count Whole    `json:"count,omitempty" limits:"0..5"`
		Tags  []string `json:"tags,omitempty" limits:"1..3" each:"..4"`
		Items []item   `json:"items,omitempty"`
	}

	require.JSONEq(t, `{
		"type": "object",
		"properties": {
			"text": {"type": "string", "description": "What it works on", "minLength": 1, "maxLength": 10},
			"mode": {"type": "string", "enum": ["a", "b"]},
			"count": {"type": "integer", "minimum": 0, "maximum": 5},
			"tags": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "maxLength": 4}},
			"items": {"type": "array", "items": {
				"type": "object", "properties": {"name": {"type": "string", "minLength": 1}},
				"required": ["name"], "additionalProperties": false
			}}
		},
		"required": ["text"],
		"additionalProperties": false,
		"title": "adjusted"
	}`, string(Parameters[arguments](func(s *jsonschema.Schema) { s.Title = "adjusted" })))
}

func TestParameters_wrongLimits(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, `schema of tools.noRange: field Text: limits "1" are not valid here`, func() { Parameters[noRange]() })
	require.PanicsWithValue(t, `schema of tools.noNumber: field Text: limits "one.." are not valid here`, func() { Parameters[noNumber]() })
	require.PanicsWithValue(t, `schema of tools.noArray: field Text: limits "1..2" are not valid here`, func() { Parameters[noArray]() })
}

type noRange struct {
	Text string `json:"text" limits:"1"`
}

type noNumber struct {
	Text string `json:"text" limits:"one.."`
}

type noArray struct {
	Text string `json:"text" each:"1..2"`
}
