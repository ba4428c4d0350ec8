package mcp

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchemaOf_unsupportedPatterns(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ schema, want string }{
		"property named like a keyword with data": {
			`{"properties":{"default":{"type":"string","pattern":"(?!x)"},"enum":{"pattern":"a\\u0041"},"pattern":{"pattern":"^a"}}}`,
			`{"type":"object","properties":{"default":{"type":"string"},"enum":{},"pattern":{"pattern":"^a"}}}`,
		},
		"data of a keyword": {
			`{"default":{"pattern":"(?!x)"},"enum":[{"pattern":"(?!x)"}]}`,
			`{"type":"object","default":{"pattern":"(?!x)"},"enum":[{"pattern":"(?!x)"}]}`,
		},
		"items and alternatives": {
			`{"properties":{"a":{"items":{"anyOf":[{"pattern":"(?<=x)y"},{"type":"number"}]}}}}`,
			`{"type":"object","properties":{"a":{"items":{"anyOf":[{},{"type":"number"}]}}}}`,
		},
		"keywords that would refuse more": {
			`{"properties":{"a":{"not":{"pattern":"(?!x)"}},"b":{"oneOf":[{"pattern":"(?!x)"},{"pattern":"(?=x)"}]},` +
				`"c":{"if":{"pattern":"(?!x)"},"then":{"maxLength":1},"else":{"maxLength":2}},` +
				`"d":{"contains":{"pattern":"(?!x)"},"maxContains":1},"e":{"not":{"pattern":"^x"}}}}`,
			`{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{"contains":{}},"e":{"not":{"pattern":"^x"}}}}`,
		},
		"names of members": {
			`{"propertyNames":{"pattern":"^(?!_)"},"patternProperties":{"(?!x)":{},"^y":{"pattern":"(?!x)"}},"unevaluatedProperties":false}`,
			`{"type":"object","propertyNames":{},"patternProperties":{"^y":{}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var schema any
			require.NoError(t, json.Unmarshal([]byte(c.schema), &schema))

			encoded, err := schemaOf(schema)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(encoded))

			_, err = checker(encoded)
			require.NoError(t, err)
		})
	}
}
