package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// respond sends a request of the Responses interface, and returns the answer and what
// reached the source, which answers with the completion.
func respond(t *testing.T, body, completion string) (status int, answer, asked gjson.Result) {
	t.Helper()

	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked = gjson.ParseBytes(text)

		fmt.Fprint(w, completion)
	})
	s := start(t, one(url, ""), 0)
	res := s.do(t.Context(), http.MethodPost, "/v1/responses", operatorKey, body)

	return res.StatusCode, gjson.Parse(read(t, res)), asked
}

const saidYes = `{"model":"m","choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`

func TestService_responses_request(t *testing.T) {
	t.Parallel()

	const image = `{"type":"input_image","image_url":"data:image/png;base64,aaaa","detail":"low"}`

	for name, c := range map[string]struct{ body, messages, more string }{
		"a text": {`"input":"hi","instructions":"be brief"`, `[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]`, `{}`},
		"a conversation": {
			`"instructions":"a","input":[{"role":"developer","content":"b"},{"role":"user","content":[{"type":"input_text","text":"x"}]},
			{"type":"reasoning","id":"rs","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
			{"type":"message","role":"assistant","id":"m","status":"completed",
			"content":[{"type":"output_text","text":"y","annotations":[]}]},
			{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
			{"type":"function_call","call_id":"2","name":"g","arguments":"{}"},
			{"type":"function_call_output","call_id":"1","output":"one"},
			{"type":"function_call_output","call_id":"2","output":[{"type":"input_text","text":"two"},` + image + `]},
			{"role":"user","content":[{"type":"input_text","text":"and"},` + image + `]}]`,
			`[{"role":"system","content":"a\n\nb"},{"role":"user","content":"x"},
			{"role":"assistant","content":"y","reasoning_content":"hm","tool_calls":[
				{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},
				{"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"1","content":"one"},{"role":"tool","tool_call_id":"2","content":"two"},
			{"role":"user","content":[{"type":"text","text":"Image of the tool result 2:"},
				{"type":"image_url","image_url":{"url":"data:image/png;base64,aaaa","detail":"low"}}]},
			{"role":"user","content":[{"type":"text","text":"and"},
				{"type":"image_url","image_url":{"url":"data:image/png;base64,aaaa","detail":"low"}}]}]`, `{}`,
		},
		"what a coding agent sends": {
			`"client_metadata":{"a":"b"},"tool_choice":"auto","parallel_tool_calls":true,
			"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"defer_loading":true,"a_later_hint":1},
			{"type":"custom","name":"patch","description":"d","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
			{"type":"web_search","external_web_access":false},{"type":"tool_search"},{"type":"image_generation"},{"type":"local_shell"},
			{"type":"namespace","name":"n","description":"d","tools":[]}],
			"input":[{"role":"user","content":"x"},{"role":"developer","content":"b"},
			{"type":"web_search_call","id":"ws","status":"completed"},
			{"type":"custom_tool_call","call_id":"1","name":"patch","input":"a \"<b>\""},{"role":"system","content":"c"},
			{"type":"custom_tool_call_output","call_id":"1","output":"done"}]`,
			`[{"role":"user","content":"x\n\nb"},{"role":"assistant","content":null,"tool_calls":[
				{"id":"1","type":"function","function":{"name":"patch","arguments":"{\"input\":\"a \\\"<b>\\\"\"}"}}]},
			{"role":"tool","tool_call_id":"1","content":"done"},{"role":"user","content":"c"}]`,
			`{"tool_choice":"auto","parallel_tool_calls":true,"tools":[
			{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},
			{"type":"function","function":{"name":"patch",
				"description":"d\n\nThe input must match this grammar (lark):\nstart: x",
				"parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}}]}`,
		},
		"only tools that the source cannot call": {
			`"input":"x","tool_choice":"auto","tools":[{"type":"web_search"}]`, `[{"role":"user","content":"x"}]`, `{}`,
		},
		"settings": {
			`"input":"x","max_output_tokens":7,"temperature":0.5,"top_p":1,"parallel_tool_calls":false,"store":true,"truncation":"disabled",
			"reasoning":{"effort":"low","summary":"auto"},"tool_choice":{"type":"function","name":"f"},"seed":1,"metadata":{"a":"b"},
			"include":["reasoning.encrypted_content"],"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}],
			"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},"background":false,"user":null`,
			`[{"role":"user","content":"x"}]`,
			`{"max_tokens":7,"temperature":0.5,"top_p":1,"parallel_tool_calls":false,"reasoning_effort":"low","seed":1,
			"tool_choice":{"type":"function","function":{"name":"f"}},
			"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}],
			"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			status, answer, asked := respond(t, `{"model":"gpt-x",`+c.body+`}`, saidYes)
			require.Equal(t, 200, status, answer.Raw)
			require.JSONEq(t, c.messages, asked.Get("messages").Raw)

			rest := map[string]json.RawMessage{}
			require.NoError(t, json.Unmarshal([]byte(asked.Raw), &rest))
			delete(rest, "messages")
			delete(rest, "model")
			more, err := json.Marshal(rest)
			require.NoError(t, err)
			require.JSONEq(t, c.more, string(more))
		})
	}
}

func TestService_responses_refuses(t *testing.T) {
	t.Parallel()

	for field, body := range map[string]string{
		"input":                       `"input":[]`,
		"input.0.type":                `"input":[{"type":"odd"}]`,
		"input must":                  `"input":[{"type":"web_search_call"},{"role":"developer","content":"x"}]`,
		"input.0":                     `"input":[{"type":"item_reference","id":"x"}]`,
		"input.0.role":                `"input":[{"role":"tool","content":"x"}]`,
		"input.0.content":             `"input":[{"role":"user","content":[]}]`,
		"input.0.content.0.type":      `"input":[{"role":"user","content":[{"type":"input_file"}]}]`,
		"input.0.content.0.image_url": `"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]`,
		"input.0.arguments":           `"input":[{"type":"function_call","call_id":"1","name":"f","arguments":{}}]`,
		"input.0.call_id":             `"input":[{"type":"function_call_output","output":"x"}]`,
		"input.0.encrypted_content":   `"input":[{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}]`,
		"previous_response_id":        `"input":"x","previous_response_id":"resp_1"`,
		"conversation":                `"input":"x","conversation":"c"`,
		"background":                  `"input":"x","background":true`,
		"truncation":                  `"input":"x","truncation":"auto"`,
		"tools.0.type":                `"input":"x","tools":[{"name":"f"}]`,
		"tool_choice forces":          `"input":"x","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}`,
		"tool_choice forces a tool":   `"input":"x","tools":[{"type":"web_search"}],"tool_choice":"required"`,
		"tools.0.name":                `"input":"x","tools":[{"type":"function"}]`,
		"tool_choice":                 `"input":"x","tool_choice":{"type":"allowed_tools"}`,
		"text.format.schema":          `"input":"x","text":{"format":{"type":"json_schema","name":"n"}}`,
		"text.format.type":            `"input":"x","text":{"format":{"type":"grammar"}}`,
		"max_output_tokens":           `"input":"x","max_output_tokens":0`,
		"top_logprobs":                `"input":"x","top_logprobs":5`,
		"include.0":                   `"input":"x","include":["message.output_text.logprobs"]`,
		"unknown_field":               `"input":"x","unknown_field":1`,
	} {
		status, answer, asked := respond(t, `{"model":"gpt-x",`+body+`}`, saidYes)
		require.Equal(t, 400, status, body)
		require.Equal(t, `["invalid_request_error","invalid_request"]`, answer.Get("error").Get("[type,code]").Raw, body)
		require.True(t, strings.HasPrefix(answer.Get("error.message").String(), "the field "+field+" "), answer.Raw)
		require.False(t, asked.Exists(), "the source was asked: %s", body)
	}
}

func TestService_responses_whole(t *testing.T) {
	t.Parallel()

	const cut = `{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a"}}]}`

	for name, c := range map[string]struct{ message, finish, status, output, reason string }{
		"thinking and text": {
			`{"reasoning_content":"hm","content":"yes"}`, "stop", "completed", `["reasoning:hm","message:yes"]`, "",
		},
		"tool call": {
			`{"tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]}`, "tool_calls", "completed", `["function_call:f{}"]`, "",
		},
		"length":   {`{"content":"y"}`, "length", "incomplete", `["message:y"]`, "max_output_tokens"},
		"filter":   {`{"content":"y"}`, "content_filter", "incomplete", `["message:y"]`, "content_filter"},
		"refusal":  {`{"content":null,"refusal":"no"}`, "stop", "completed", `["message:no"]`, ""},
		"cut call": {cut, "length", "incomplete", `["function_call:f{\"a"]`, "max_output_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			status, answer, _ := respond(t, `{"model":"gpt-x","input":"hi","metadata":{"a":"b"}}`, fmt.Sprintf(
				`{"choices":[{"message":%s,"finish_reason":%q}],"usage":{"prompt_tokens":9,"completion_tokens":4,
				"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":3}}}`, c.message, c.finish))
			require.Equal(t, 200, status, answer.Raw)
			require.Equal(t, fmt.Sprintf(`["response",%q,"gpt-x",false]`, c.status), answer.Get("[object,status,model,store]").Raw)
			require.JSONEq(t, c.output, outline(t, answer.Get("output")))
			require.Equal(t, c.reason, answer.Get("incomplete_details.reason").String())
			require.Equal(t, "b", answer.Get("metadata.a").String())
			require.JSONEq(t, `{"input_tokens":9,"input_tokens_details":{"cached_tokens":6},"output_tokens":4,
				"output_tokens_details":{"reasoning_tokens":3},"total_tokens":13}`, answer.Get("usage").Raw)
		})
	}

	status, answer, _ := respond(
		t,
		`{"model":"gpt-x","input":"hi"}`,
		fmt.Sprintf(`{"choices":[{"message":%s,"finish_reason":"stop"}]}`, cut),
	)
	require.Equal(t, 502, status)
	require.Equal(t, "source_error", answer.Get("error.code").String())
}

// A tool call without a name is the source's fault in every interface.
func TestService_callWithoutName(t *testing.T) {
	t.Parallel()

	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`)
	})
	s := start(t, one(url, ""), 0)

	for path, body := range map[string]string{"/v1/messages": question, "/v1/responses": `"model":"gpt-x","input":"hi"`} {
		res := s.do(t.Context(), http.MethodPost, path, operatorKey, "{"+body+"}")
		text := read(t, res)
		require.Equal(t, http.StatusBadGateway, res.StatusCode, path+text)
		require.Contains(t, text, "without a name", path)
	}
}

// outline are items as type:content.
func outline(t *testing.T, output gjson.Result) string {
	t.Helper()

	items := []string{}

	for _, item := range output.Array() {
		text := item.Get("type").String() + ":" + item.Get("name").String() + item.Get("arguments").String()
		for _, part := range item.Get("content").Array() {
			text += part.Get("text").String() + part.Get("refusal").String()
		}

		items = append(items, text)
	}

	raw, err := json.Marshal(items)
	require.NoError(t, err)

	return string(raw)
}

// replayed reads a stream of the Responses interface, checks that its events are numbered,
// that items start in their order and that the pieces of each come to its whole, and
// returns the last event.
func replayed(t *testing.T, text string) gjson.Result {
	t.Helper()

	var last gjson.Result

	number, items := int64(0), int64(0)
	pieces := map[string]string{}

	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if part == ": keep-alive" {
			continue
		}

		head, data, is := strings.Cut(part, "\ndata: ")
		require.True(t, is && json.Valid([]byte(data)), part)
		require.False(t, strings.HasPrefix(last.Get("type").String(), "response.completed"), "an event after the last one")

		last = gjson.Parse(data)
		require.Equal(t, strings.TrimPrefix(head, "event: "), last.Get("type").String())
		require.Equal(t, number, last.Get("sequence_number").Int())
		number++

		id := last.Get("item_id").String()

		switch kind := last.Get("type").String(); {
		case kind == "response.output_item.added":
			require.Equal(t, items, last.Get("output_index").Int())
			require.Equal(t, "in_progress", last.Get("item.status").String())

			items++
		case strings.HasSuffix(kind, ".delta"):
			pieces[id] += last.Get("delta").String()
		case strings.HasSuffix(kind, "_text.done"):
			require.Equal(t, pieces[id], last.Get("text").String())
		case strings.HasSuffix(kind, "arguments.done") && pieces[id] != "":
			require.Equal(t, pieces[id], last.Get("arguments").String())
		}
	}

	return last
}

func streamed(t *testing.T, pieces ...string) string {
	t.Helper()

	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if !gjson.GetBytes(text, "stream_options.include_usage").Bool() {
			http.Error(w, "usage was not asked for", http.StatusTeapot)
			return
		}

		w.Header().Set("Content-Type", "text/event-stream")

		for _, piece := range pieces {
			fmt.Fprint(w, "data: "+piece+"\n\n")
		}
	})
	res := start(t, one(url, ""), 0).do(t.Context(), http.MethodPost, "/v1/responses", operatorKey,
		`{"model":"gpt-x","input":"hi","stream":true}`)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))

	return read(t, res)
}

// Calls as some sources send them: whole in one piece, and not numbered.
const (
	wholeA  = `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":1}"}}]}`
	wholeB  = `{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{\"b\":2}"}}]}`
	wholeB2 = `{"tool_calls":[{"index":0,"id":"b2","function":{"name":"g","arguments":{"b":2}}}]}`
	bareA   = `{"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}`
)

func delta(text string) string { return `{"choices":[{"delta":` + text + `}]}` }

func TestService_responses_stream(t *testing.T) {
	t.Parallel()

	const (
		usage = `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}}`
		callA = `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`
		callB = `{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"b\":2}"}}]}`
		restA = `{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`
	)

	for name, c := range map[string]struct {
		deltas         []string
		finish, output string
		status         string
	}{
		"text":           {[]string{`{"content":"a"}`, `{"content":"b"}`}, "stop", `["message:ab"]`, "completed"},
		"thinking, text": {[]string{`{"reasoning":"h"}`, `{"content":"b"}`}, "length", `["reasoning:h","message:b"]`, "incomplete"},
		"mixed calls": {
			[]string{`{"content":"x"}`, callA, callB, restA},
			"tool_calls",
			`["message:x","function_call:f{\"a\":1}","function_call:g{\"b\":2}"]`, "completed",
		},
		"late text": {
			[]string{callA, restA, `{"content":"x"}`, callB},
			"tool_calls",
			`["function_call:f{\"a\":1}","message:x","function_call:g{\"b\":2}"]`, "completed",
		},
		"calls of one index": {
			[]string{wholeA, wholeB, wholeB2},
			"tool_calls",
			`["function_call:f{\"a\":1}","function_call:g{\"b\":2}","function_call:g{\"b\":2}"]`, "completed",
		},
		"calls without index and id": {
			[]string{bareA, bareA},
			"tool_calls",
			`["function_call:f{\"a\":1}","function_call:f{\"a\":1}"]`, "completed",
		},
		"refusal": {[]string{`{"refusal":"no"}`}, "stop", `["message:no"]`, "completed"},
		"nothing": {nil, "stop", `[]`, "completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var pieces []string
			for _, d := range c.deltas {
				pieces = append(pieces, delta(d))
			}

			pieces = append(pieces, `{"choices":[{"delta":{},"finish_reason":"`+c.finish+`"}]}`, usage, "[DONE]")
			last := replayed(t, streamed(t, pieces...))
			require.Equal(t, "response."+c.status, last.Get("type").String())
			require.JSONEq(t, c.output, outline(t, last.Get("response.output")))
			require.Equal(t, "[5,6]", last.Get("response.usage").Get("[input_tokens,output_tokens]").Raw)
		})
	}
}

func TestService_responses_stream_brokenFails(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		pieces []string
		code   string
	}{
		"cut":           {[]string{delta(`{"content":"a"}`)}, "source_cut"},
		"own error":     {[]string{delta(`{"content":"a"}`), `{"error":{"message":"slow down","code":"busy"}}`}, "busy"},
		"no JSON":       {[]string{"{"}, "source_error"},
		"no name":       {[]string{delta(`{"tool_calls":[{"function":{"arguments":"{}"}}]}`), "[DONE]"}, "source_error"},
		"bad arguments": {[]string{delta(`{"tool_calls":[{"function":{"name":"f","arguments":"["}}]}`), "[DONE]"}, "source_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			last := replayed(t, streamed(t, c.pieces...))
			require.Equal(t, `["response.failed","failed"]`, "["+last.Get("type").Raw+","+last.Get("response.status").Raw+"]")
			require.Equal(t, c.code, last.Get("response.error.code").String(), last.Raw)
		})
	}
}

func TestService_responses_customTools(t *testing.T) {
	t.Parallel()

	const body = `{"model":"gpt-x","input":"hi","tools":[{"type":"custom","name":"patch"},{"type":"namespace","name":"n","tools":[]},
		{"type":"web_search"}]`

	for arguments, input := range map[string]string{`{"input":"a\nb"}`: "a\nb", `{"patch":"c"}`: "c", `{"x":"y","z":1}`: `{"x":"y","z":1}`} {
		url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"patch","arguments":%q}}]},
				"finish_reason":"tool_calls"}]}`, arguments)
		})
		s := start(t, one(url, ""), 0)

		res := s.do(t.Context(), http.MethodPost, "/v1/responses", operatorKey, body+`}`)
		answer := gjson.Parse(read(t, res))
		require.Equal(t, "n, web_search", res.Header.Get("X-Everloop-Omitted-Tools"))
		require.Equal(t, "custom_tool_call", answer.Get("output.0.type").String(), answer.Raw)
		require.Equal(t, input, answer.Get("output.0.input").String())
		require.Equal(t, `["c","patch","completed"]`, answer.Get("output.0").Get("[call_id,name,status]").Raw)

		text := read(t, s.do(t.Context(), http.MethodPost, "/v1/responses", operatorKey, body+`,"stream":true}`))

		seen := map[string]gjson.Result{}

		for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
			_, data, _ := strings.Cut(part, "\ndata: ")
			one := gjson.Parse(data)
			seen[one.Get("type").String()] = one
		}

		id := seen["response.output_item.added"].Get("item.id").String()
		require.Equal(t, "custom_tool_call", seen["response.output_item.added"].Get("item.type").String(), text)
		require.Equal(t, input, seen["response.custom_tool_call_input.delta"].Get("delta").String())
		require.Equal(t, input, seen["response.custom_tool_call_input.done"].Get("input").String())
		require.Equal(t, id, seen["response.custom_tool_call_input.done"].Get("item_id").String())
		require.Equal(t, input, seen["response.completed"].Get("response.output.0.input").String())
		require.NotContains(t, text, "function_call_arguments")
	}
}
