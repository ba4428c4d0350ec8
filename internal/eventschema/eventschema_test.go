package eventschema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/eventschema"
)

const address = "mem:///events.json"

func TestDocument_isCommitted(t *testing.T) {
	t.Parallel()

	document, err := eventschema.Document()
	require.NoError(t, err)
	committed, err := os.ReadFile("../../docs/events.json")
	require.NoError(t, err)
	require.Equal(t, string(committed), string(document), "run `make events`")
}

func compiled(t *testing.T, at string) *jsonschema.Schema {
	t.Helper()

	text, err := eventschema.Document()
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)

	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	require.NoError(t, compiler.AddResource(address, document))
	schema, err := compiler.Compile(address + at)
	require.NoError(t, err)

	return schema
}

// TestDocument_allowsPageExamples holds the examples of docs/events.md, which are
// from real runs, to the schema.
func TestDocument_allowsPageExamples(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/events.md")
	require.NoError(t, err)

	sections := regexp.MustCompile(`(?m)^### (\S+)$`).FindAllSubmatchIndex(page, -1)
	tried := map[string]int{}

	declared := map[string]*jsonschema.Schema{}
	for _, event := range domain.DeclaredEvents() {
		declared[event.Name] = compiled(t, "#/$defs/"+event.Name)
	}

	for i, at := range sections {
		name, end := string(page[at[2]:at[3]]), len(page)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}

		schema := declared[name]
		if schema == nil {
			continue
		}

		for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page[at[1]:end], -1) {
			for line := range bytes.Lines(block[1]) {
				value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
				require.NoError(t, err)
				require.NoError(t, schema.Validate(value), "%s: %s", name, line)
				tried[name]++
			}
		}
	}

	require.GreaterOrEqual(t, len(tried), 9)
}

func TestDocument_refuses(t *testing.T) {
	t.Parallel()

	const head = `"session_id":"s","seq":2,"prev_seq":1,"ts":"2026-11-21T10:18:32.449488736Z"`

	schema := compiled(t, "")
	event := func(name, fields string) string {
		return `{"name":"` + name + `","data":{` + head + fields + `}}`
	}
	validate := func(text string) error {
		require.True(t, json.Valid([]byte(text)), text)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
		require.NoError(t, err)

		return schema.Validate(value)
	}
	content := `,"chat_id":"c","turn_id":"t","patch_type":"add_content","text_delta":"x","block_type":"text","offset":0`
	require.NoError(t, validate(event("turn:patch", content)))
	require.NoError(t, validate(event("file:changed", `,"path":"a","change":"created"`)))

	for name, text := range map[string]string{
		"unknown event":    event("turn:odd", ``),
		"unknown field":    event("turn:patch", content+`,"more":1`),
		"missing field":    event("file:changed", `,"path":"a"`),
		"value not listed": event("file:changed", `,"path":"a","change":"renamed"`),
		"wrong type":       event("file:changed", `,"path":5,"change":"created"`),
		"unknown patch":    event("turn:patch", `,"chat_id":"c","turn_id":"t","patch_type":"odd"`),
		"no chat_id": event("turn:end",
			`,"turn_id":"t","status":"completed","usage":{"input_tokens":0,"output_tokens":0},"duration_ms":1`),
		"no envelope": `{"name":"file:changed","data":{"path":"a","change":"created"}}`,
	} {
		require.Error(t, validate(text), name)
	}
}
