package schema_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/schema"
)

// doubling refers twice from each of n schemas to the next, inside the given
// keyword: 2^n steps.
func doubling(n int, each string) string {
	var d strings.Builder
	d.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)

	for i := range n {
		ref := strings.ReplaceAll(each, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1))
		fmt.Fprintf(&d, `"d%d":{"allOf":[%s,%s]},`, i, ref, ref)
	}

	fmt.Fprintf(&d, `"d%d":{"type":"string"}}}`, n)

	return d.String()
}

func TestHostileSchemasAreRefused(t *testing.T) {
	t.Parallel()

	for name, outputSchema := range map[string]string{
		"deep":         strings.Repeat(`{"not":`, 9000) + "{}" + strings.Repeat("}", 9000),
		"doubling":     doubling(40, "NEXT"),
		"large":        `{"title":"` + strings.Repeat("a", 300<<10) + `"}`,
		"other place":  `{"$ref":"http://127.0.0.1:1/x"}`,
		"file":         `{"$ref":"file:///etc/passwd"}`,
		"other draft":  `{"$schema":"http://elsewhere.example/x"}`,
		"number":       `{"minimum":1e99999999}`,
		"look-ahead":   `{"pattern":"(?=x)"}`,
		"repetition":   `{"pattern":"((a{1,1000}){1,1000}){1,1000}"}`,
		"copied":       `{"pattern":"(abcdefghijklmnopqrstuvwxyz){900}"}`,
		"together":     `{"anyOf":[` + strings.Repeat(`{"pattern":"(abcdefgh){900}"},`, 9) + `{}]}`,
		"id":           `{"$id":"http://[::1","type":"string"}`,
		"null":         `null`,
		"two":          `{} {}`,
		"unknown type": `{"type":"nothing"}`,
	} {
		began := time.Now()
		_, err := schema.Compile([]byte(outputSchema))
		require.True(t, domain.HasCode(err, domain.CodeInvalidSchema), "%s: %v", name, err)
		require.Less(t, len(err.Error()), 1000, name)
		require.Less(t, time.Since(began), time.Minute, name)
	}
}

func TestSchema_Validate_boundsPatterns(t *testing.T) {
	t.Parallel()

	compiled, err := schema.Compile([]byte(`{"items":{"pattern":"^(a|b|ab){0,900}c$"}}`))
	require.NoError(t, err)
	require.NoError(t, compiled.Validate([]any{"abac"}))

	err = compiled.Validate([]any{strings.Repeat("ab", 100_000), strings.Repeat("ab", 100_000)})
	require.ErrorContains(t, err, "too large to be checked against the patterns")
}

func TestTheFaultOfASchemaIsNamed(t *testing.T) {
	t.Parallel()

	_, err := schema.Compile([]byte(`{"properties":{"n":{"type":"nothing"}}}`))
	require.EqualError(t, err, "output_schema is not a valid JSON Schema: /properties/n/type: got string, want array; "+
		"/properties/n/type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'")
}

func TestSchema_Validate_namesThePlaces(t *testing.T) {
	t.Parallel()

	compiled, err := schema.Compile([]byte(`{"required":["n","m"],"properties":{"list":{"items":{"type":"string"}}}}`))
	require.NoError(t, err)
	value, err := schema.ParseJSON(`{"list":["a",1]}`)
	require.NoError(t, err)
	require.EqualError(t, compiled.Validate(value), "/list/1: got number, want string; missing properties 'n', 'm'")
}

func TestHostileAnswersAndSchemasTakeNoTime(t *testing.T) {
	t.Parallel()

	nested := strings.Repeat("[", 50) + strings.Repeat("]", 50)
	for name, tc := range map[string]struct{ schema, answer string }{
		"number":             {`{"type":"number","minimum":0}`, `1e99999999`},
		"many digits":        {`{"multipleOf":0.01}`, strings.Repeat("9", 100_000)},
		"doubling by level":  {`{"$defs":{"a":{"allOf":[{"items":{"$ref":"#/$defs/a"}},{"items":{"$ref":"#/$defs/a"}}]}},"$ref":"#/$defs/a"}`, nested},
		"doubling, dynamic":  {`{"$dynamicAnchor":"a","allOf":[{"items":{"$dynamicRef":"#a"}},{"items":{"$dynamicRef":"#a"}}]}`, nested},
		"refers to itself":   {`{"$ref":"#"}`, `1`},
		"a part, to itself":  {`{"allOf":[{"$ref":"#"}]}`, `1`},
		"backtracking":       {`{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 20_000) + `!"`},
		"very deep answer":   {`{"items":{"$ref":"#"},"type":"array"}`, strings.Repeat("[", 9000) + "1" + strings.Repeat("]", 9000)},
		"draft-07, doubling": {strings.NewReplacer("$defs", "definitions", `{"$ref":"#/$defs/d0",`, `{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"$ref":"#/definitions/d0"}],`).Replace(doubling(10, `{"items":NEXT}`)), nested},
	} {
		began := time.Now()
		outputSchema, err := schema.Compile([]byte(tc.schema))
		require.NoError(t, err, name)
		value, err := schema.ParseJSON(tc.answer)
		require.NoError(t, err, name)
		require.Error(t, outputSchema.Validate(value), name)
		require.Less(t, time.Since(began), time.Minute, name)
	}
}

// Schemas that people write pass: trees, unions, composition.
func TestOrdinarySchemasAreUsed(t *testing.T) {
	t.Parallel()

	tree := `{"type":"object","properties":{"name":{"type":"string"},"left":{"$ref":"#"},"right":{"$ref":"#"},"more":{"type":"array","items":{"$ref":"#"}}},"required":["name"],"additionalProperties":false}`

	value := `{"name":"leaf"}`
	for range 40 {
		value = `{"name":"x","left":` + value + `,"more":[{"name":"y"}]}`
	}

	for name, tc := range map[string]struct{ schema, right, wrong string }{
		"tree":        {tree, value, strings.Replace(value, "leaf", `leaf","other":"`, 1)},
		"metaschema":  {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, tree, `{"type":"nothing"}`},
		"draft-07":    {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"integer","exclusiveMinimum":0}`, `1.0`, `0`},
		"union":       {`{"oneOf":[{"type":"string","minLength":2},{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}]}`, `{"n":1e3}`, `"x"`},
		"composition": {`{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"number"}}}],"unevaluatedProperties":false}`, `{"a":"x","b":2}`, `{"c":1}`},
		"many":        {`{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}}}}`, "[" + strings.TrimSuffix(strings.Repeat(`{"id":1,"tags":["a","b"]},`, 5000), ",") + "]", `[{"id":"x"}]`},
	} {
		outputSchema, err := schema.Compile([]byte(tc.schema))
		require.NoError(t, err, name)
		right, err := schema.ParseJSON(tc.right)
		require.NoError(t, err, name)
		require.NoError(t, outputSchema.Validate(right), name)

		wrong, err := schema.ParseJSON(tc.wrong)
		require.NoError(t, err, name)
		require.Error(t, outputSchema.Validate(wrong), name)
	}
}
