package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestToolCallsAreAssembled(t *testing.T) {
	fragments := func(list ...string) []string {
		var out []string
		for _, f := range list {
			out = append(out, delta(`{"tool_calls":[`+f+`]}`))
		}

		return append(out, finish("stop"), done) // stop with calls counts as calls
	}
	want := []domain.RequestedCall{
		{ID: "a", Name: "Bash", Arguments: `{"command":"ls"}`},
		{ID: "b", Name: "Read", Arguments: `{"file_path":"x"}`},
	}

	tests := map[string][]string{
		"fragments, interleaved": fragments(
			`{"index":0,"id":"a","type":"function","function":{"name":"Bash","arguments":""}}`,
			`{"index":1,"id":"b","type":"function","function":{"name":"Read","arguments":"{\"file"}}`,
			`{"index":0,"function":{"arguments":"{\"command\":"}}`,
			`{"index":1,"function":{"arguments":"_path\":\"x\"}"}}`,
			`{"index":0,"function":{"arguments":"\"ls\"}"}}`),
		"whole calls in one chunk": fragments(
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"command\":\"ls\"}"}},{"index":1,"id":"b","function":{` +
				`"name":"Read","arguments":"{\"file_path\":\"x\"}"}}`,
		),
		"index 0 for every whole call": fragments(
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"command\":\"ls\"}"}}`,
			`{"index":0,"id":"b","function":{"name":"Read","arguments":"{\"file_path\":\"x\"}"}}`),
		"no index": fragments(
			`{"id":"a","function":{"name":"Bash","arguments":"{\"command\":"}}`,
			`{"function":{"arguments":"\"ls\"}"}}`,
			`{"id":"b","function":{"name":"Read","arguments":"{\"file_path\""}}`,
			`{"id":"b","function":{"name":"Read","arguments":":\"x\"}"}}`),
		"a new id for every fragment": fragments(
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"command\":"}}`,
			`{"index":0,"id":"z","function":{"name":null,"arguments":"\"ls\"}"}}`,
			`{"index":1,"id":"b","function":{"name":"Read","arguments":"{\"file_path\":\"x\"}"}}`),
		"name in pieces, then repeated": fragments(
			`{"index":0,"id":"a","function":{"name":"Ba"}}`,
			`{"index":0,"function":{"name":"sh","arguments":"{\"command\":"}}`,
			`{"index":0,"function":{"name":"Bash","arguments":"\"ls\"}"}}`,
			`{"index":1,"id":"b","function":{"name":"Read","arguments":"{\"file_path\":\"x\"}"}}`),
		"arguments as an object": fragments(
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":{"command":"ls"}}}`,
			`{"index":1,"id":"b","function":{"name":"Read","arguments":{"file_path":"x"}}}`),
	}
	for name, lines := range tests {
		t.Run(name, func(t *testing.T) {
			reply, err := call(t, server(t, events(lines...)))
			require.NoError(t, err)
			require.Equal(t, want, reply.Calls)
			require.Equal(t, "tool_calls", reply.FinishReason)
		})
	}
}

func TestStream_callsWithoutIdsOrArguments(t *testing.T) {
	reply, err := call(t, server(t, events(
		delta(
			`{"tool_calls":[{"index":0,"function":{"name":"A","arguments":""}},{"index":1,"id":"same","function":{"name":"B"}},{`+
				`"index":2,"id":"same","function":{"name":"C","arguments":"{"}}]}`,
		),
		finish("tool_calls"),
		done,
	)))
	require.NoError(t, err)
	require.Len(t, reply.Calls, 3)
	require.Empty(t, reply.Calls[0].ID, "the server gave none")
	require.Equal(t, "{}", reply.Calls[0].Arguments)
	require.Equal(t, "same", reply.Calls[1].ID)
	require.Equal(t, "same", reply.Calls[2].ID, "as the server gave it")
	require.Equal(t, "{", reply.Calls[2].Arguments, "malformed arguments are the caller's to refuse")
}
