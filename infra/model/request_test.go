package model_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestRequestOnTheWire(t *testing.T) {
	var (
		header http.Header
		path   string
		body   []byte
	)

	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		header, path = r.Header, r.URL.Path
		body, _ = io.ReadAll(r.Body)
		events(finish("stop"), done)(w, r)
	})
	text := func(s string) []domain.ContentPart { return []domain.ContentPart{{Type: "text", Text: s}} }
	_, err := c.Stream(t.Context(), domain.Prompt{
		Model: "m",
		Messages: []domain.PromptMessage{
			{Role: "system", Parts: text("be <brief>")},
			{Role: "user", Parts: []domain.ContentPart{
				{Type: "text", Text: "what is this?"},
				{Type: "image_url", ImageURL: &domain.ImageURL{URL: "data:image/png;base64,AAAA"}},
			}},
			{Role: "assistant", Calls: []domain.PromptCall{
				{ID: "own-a", ServerID: "a", Name: "Bash", Arguments: `{"command":"true"}`},
				{ID: "own-b", ServerID: "b", Name: "Bash", Arguments: `{"command":`},
				{ID: "own-c", ServerID: "c", Arguments: ``},
			}},
			{Role: "tool", ToolCallID: "own-a"},
			{Role: "tool", ToolCallID: "own-b", Parts: []domain.ContentPart{{Type: "text", Text: "one"}, {Type: "text", Text: "two"}}},
		},
		Tools: []domain.ToolSpec{
			{
				Name:        "Bash",
				Description: "runs",
				Parameters:  json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`),
			},
			{Name: "Bare"},
		},
		Schema: json.RawMessage(`{"type":"object"}`),
	}, nil)
	require.NoError(t, err)
	require.Equal(t, "/v1/chat/completions", path)
	require.Equal(t, "Bearer "+testKey, header.Get("Authorization"))
	require.JSONEq(t, `{
		"model": "m", "stream": true, "stream_options": {"include_usage": true},
		"messages": [
			{"role": "system", "content": "be <brief>"},
			{"role": "user", "content": [{"type": "text", "text": "what is this?"},
				{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
			{"role": "assistant", "content": "", "tool_calls": [
				{"id": "a", "type": "function", "function": {"name": "Bash", "arguments": "{\"command\":\"true\"}"}},
				{"id": "b", "type": "function",
				"function": {"name": "Bash", "arguments": "{\"malformed_arguments\":\"{\\\"command\\\":\"}"}},
				{"id": "c", "type": "function", "function": {"name": "unnamed", "arguments": "{}"}}]},
			{"role": "tool", "content": "", "tool_call_id": "a"},
			{"role": "tool", "content": "one\ntwo", "tool_call_id": "b"}
		],
		"tools": [
			{"type": "function", "function": {"name": "Bash", "description": "runs",
			"parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}},
			{"type": "function", "function": {"name": "Bare", "parameters": {"type": "object", "properties": {}}}}
		],
		"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": false}}
	}`, string(body))
}

func TestStream_unencodablePrompt(t *testing.T) {
	c := server(t, events(finish("stop"), done))
	p := ask()
	p.Schema = json.RawMessage(`{"type":`)
	_, err := c.Stream(t.Context(), p, nil)
	requireFault(t, err, domain.FaultRefused)
}
