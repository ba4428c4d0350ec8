package model_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/model"
)

// everything returns a prompt that uses each part of a request that a server may refuse.
func everything() domain.Prompt {
	p := thoughtful()
	p.Schema = json.RawMessage(`{"type":"object"}`)
	p.Tools = []domain.ToolSpec{{Name: "Bash"}}

	return p
}

// parts are the members of a request that a server may refuse.
func partsOf(t *testing.T, r *http.Request) map[string]bool {
	t.Helper()

	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)

	var request struct {
		Options  json.RawMessage `json:"stream_options"`
		Format   json.RawMessage `json:"response_format"`
		Tools    json.RawMessage `json:"tools"`
		Messages []map[string]json.RawMessage
	}

	require.NoError(t, json.Unmarshal(body, &request))

	has := map[string]bool{
		"usage": request.Options != nil, "schema": request.Format != nil, "both": request.Format != nil && request.Tools != nil,
	}
	for _, m := range request.Messages {
		has["reasoning"] = has["reasoning"] || m["reasoning"] != nil || m["reasoning_content"] != nil
	}

	return has
}

func TestStream_leavesOutWhatAServerRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		part   string // that the server refuses
		answer http.HandlerFunc
		out    []string
		calls  int // of two requests
	}{
		"stream_options":                      {"usage", status(400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`), []string{"stream_options"}, 3},
		"stream_options, 422":                 {"usage", status(422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`), []string{"stream_options"}, 3},
		"stream_options by param":             {"usage", status(400, `{"error":{"message":"Unknown parameter","param":"stream_options.include_usage"}}`), []string{"stream_options"}, 3},
		"response_format":                     {"schema", status(400, `{"error":{"message":"'response_format.type' must be text"}}`), []string{"response_format"}, 3},
		"structured output":                   {"schema", status(422, `{"error":"structured outputs are not supported by this model"}`), []string{"response_format"}, 3},
		"schema beside tools":                 {"both", status(400, `{"error":{"message":"Function calling with a response mime type is unsupported"}}`), []string{"response_format with tools"}, 3},
		"schema beside tools, without a word": {"both", status(500, ``), []string{"response_format with tools"}, 3},
		"schema beside tools, 500":            {"both", status(500, `{"error":{"message":"json_schema cannot be used with tools"}}`), []string{"response_format with tools"}, 3},
		"reasoning":                           {"reasoning", status(400, `{"error":{"message":"unexpected field reasoning_content"}}`), []string{"reasoning"}, 3},
		"one schema":                          {"schema", status(400, `{"error":{"message":"Invalid schema for response_format 'answer'"}}`), nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			client := server(t, func(w http.ResponseWriter, r *http.Request) {
				calls++

				if partsOf(t, r)[c.part] {
					c.answer(w, r)
					return
				}

				events(delta(`{"content":"a"}`), finish("stop"), done)(w, r)
			})

			for range 2 {
				p := everything()
				if c.part == "both" && c.calls == 3 && name == "schema beside tools, without a word" {
					p.Messages = p.Messages[:1] // nothing else is suspected
				}

				reply, err := client.Stream(t.Context(), p, nil)
				require.NoError(t, err)
				require.Equal(t, "a", reply.Text)
			}

			require.Equal(t, c.calls, calls)

			want := map[string][]string{}
			if c.out != nil {
				want["m"] = c.out
			}

			require.Equal(t, want, client.Refusals())
		})
	}
}

// A server may name one part after another.
func TestStream_leavesOutSeveralParts(t *testing.T) {
	var client *model.Client

	calls := 0
	client = server(t, func(w http.ResponseWriter, r *http.Request) {
		calls++

		has := partsOf(t, r)
		for _, part := range [][2]string{{"usage", "stream_options"}, {"schema", "response_format"}, {"reasoning", "reasoning_content"}} {
			if has[part[0]] {
				status(400, `{"error":{"message":"unknown field `+part[1]+`"}}`)(w, r)
				return
			}
		}

		events(finish("stop"), done)(w, r)
	})

	for range 2 {
		_, err := client.Stream(t.Context(), everything(), nil)
		require.NoError(t, err)
	}

	require.Equal(t, 5, calls)
	require.Equal(t, []string{"reasoning", "response_format", "stream_options"}, client.Refusals()["m"])
}

// A fault that has another reason is not blamed on a part of the request.
func TestStream_faultThatIsNoRefusalOfAPart(t *testing.T) {
	calls := 0
	client := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls++

		status(500, `{"error":{"message":"out of memory"}}`)(w, r)
	})

	_, err := client.Stream(t.Context(), everything(), nil)
	require.Contains(t, requireFault(t, err, domain.FaultTransient).Message, "out of memory")
	require.Equal(t, 2, calls)
	require.Empty(t, client.Refusals())

	_, err = client.Stream(t.Context(), ask(), nil)
	requireFault(t, err, domain.FaultTransient)
	require.Equal(t, 3, calls)
}
