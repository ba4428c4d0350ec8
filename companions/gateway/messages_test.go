package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// ask sends a request of Anthropic's interface, with the key in its header.
func (s *server) ask(body string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+"/v1/messages?beta=true", strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("X-Api-Key", operatorKey)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { res.Body.Close() })

	return res
}

// event is one of a stream.
type event struct {
	name string
	data gjson.Result
}

// events reads a stream and checks that its blocks follow one another.
func events(t *testing.T, text string) []event {
	t.Helper()

	var all []event

	open, next := false, int64(0)

	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		head, data, is := strings.Cut(part, "\ndata: ")
		require.True(t, is && json.Valid([]byte(data)), part)
		one := event{strings.TrimPrefix(head, "event: "), gjson.Parse(data)}
		require.Equal(t, one.name, one.data.Get("type").String())

		switch one.name {
		case "content_block_start":
			require.False(t, open)
			require.Equal(t, next, one.data.Get("index").Int())

			open = true
		case "content_block_delta", "content_block_stop":
			require.True(t, open)
			require.Equal(t, next, one.data.Get("index").Int())

			if one.name == "content_block_stop" {
				open = false
				next++
			}
		case "message_delta", "message_stop":
			require.False(t, open)
		}

		all = append(all, one)
	}

	return all
}

// blocks returns the blocks of a stream as kind:content.
func blocks(all []event) (blocks []string) {
	for _, one := range all {
		switch one.name {
		case "content_block_start":
			block := one.data.Get("content_block")
			blocks = append(blocks, block.Get("type").String()+":"+block.Get("name").String())
		case "content_block_delta":
			for _, name := range []string{"text", "thinking", "partial_json"} {
				blocks[len(blocks)-1] += one.data.Get("delta." + name).String()
			}
		}
	}

	return blocks
}

const question = `"model":"gpt-x","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`

// withoutSignatures empties the opaque values of thinking blocks, which must have one.
func withoutSignatures(content string) string {
	return regexp.MustCompile(`"signature":"everloop-1:[^"]+"`).ReplaceAllString(content, `"signature":""`)
}

func TestService_messages_whole(t *testing.T) {
	t.Parallel()

	const (
		thought = `"reasoning_content":"hm","content":"yes"`
		call    = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]`
	)
	for name, c := range map[string]struct{ answer, content, reason string }{
		"thinking and text": {
			`{"message":{` + thought + `},"finish_reason":"stop"}`,
			`[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"yes"}]`, `"end_turn",null`,
		},
		"tool call": {`{"message":{` + call + `},"finish_reason":"stop"}`, `[{"type":"tool_use","id":"c1","name":"f",
			"input":{"a":1}}]`, `"tool_use",null`},
		"length": {`{"message":{"content":"y"},"finish_reason":"length"}`, `[{"type":"text","text":"y"}]`, `"max_tokens",null`},
		"stop sequence": {`{"message":{"content":"y"},"finish_reason":"stop","stop_reason":"END"}`, `[{"type":"text",
			"text":"y"}]`, `"stop_sequence","END"`},
		"filter": {`{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}`, `[{"type":"text",
			"text":"no"}]`, `"refusal",null`},
		"cut call": {
			`{"message":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a"}}]},
			"finish_reason":"length"}`, `[]`, `"max_tokens",null`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"model":"m","choices":[%s],
			"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":6}}}`, c.answer)
			})
			res := start(t, one(url, ""), 0).ask(`{` + question + `,"stop_sequences":["END"]}`)
			text := read(t, res)
			require.Equal(t, 200, res.StatusCode, text)
			require.Equal(t, "m", res.Header.Get("X-Resolved-Model"))
			require.Equal(t, "msg_"+res.Header.Get("Request-Id"), gjson.Get(text, "id").String())
			require.Equal(t, `["message","assistant","gpt-x"]`, gjson.Get(text, "[type,role,model]").Raw)
			require.JSONEq(t, c.content, withoutSignatures(gjson.Get(text, "content").Raw))
			require.Equal(t, "["+c.reason+"]", gjson.Get(text, "[stop_reason,stop_sequence]").Raw)
			require.JSONEq(t, `{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":6,"output_tokens":4}`,
				gjson.Get(text, "usage").Raw)
		})
	}
}

func TestService_messages_stream(t *testing.T) {
	t.Parallel()

	const (
		callA  = `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`
		callB  = `{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"b\":2}"}}]}`
		restA  = `{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}`
		restA2 = `{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`
	)
	for name, c := range map[string]struct {
		deltas []string
		finish string
		blocks []string
		reason string
	}{
		"text": {
			[]string{`{"role":"assistant","content":""}`, `{"content":"a"}`, `{"content":"b"}`},
			"stop",
			[]string{"text:ab"},
			"end_turn",
		},
		"thinking, text": {
			[]string{`{"reasoning_content":"h"}`, `{"reasoning":"m"}`, `{"content":"b"}`},
			"length",
			[]string{"thinking:hm", "text:b"},
			"max_tokens",
		},
		"text, two calls": {
			[]string{`{"content":"x"}`, callA, restA, restA2, callB},
			"tool_calls",
			[]string{"text:x", `tool_use:f{"a":1}`, `tool_use:g{"b":2}`},
			"tool_use",
		},
		"mixed calls": {[]string{callA, callB, restA, restA2}, "stop", []string{`tool_use:f{"a":1}`, `tool_use:g{"b":2}`}, "tool_use"},
		"late text": {
			[]string{callA, restA, `{"content":"x"}`, restA2},
			"tool_calls",
			[]string{`tool_use:f{"a":1}`, "text:x"},
			"tool_use",
		},
		"calls of one index": {
			[]string{wholeA, wholeB, wholeB2},
			"tool_calls",
			[]string{`tool_use:f{"a":1}`, `tool_use:g{"b":2}`, `tool_use:g{"b":2}`},
			"tool_use",
		},
		"calls without index and id": {
			[]string{bareA, bareA},
			"tool_calls",
			[]string{`tool_use:f{"a":1}`, `tool_use:f{"a":1}`},
			"tool_use",
		},
		"an id for each piece": {
			[]string{callA, `{"tool_calls":[{"index":0,"id":"z","function":{"arguments":"{\"a\":1}"}}]}`},
			"tool_calls",
			[]string{`tool_use:f{"a":1}`},
			"tool_use",
		},
		"cut call": {[]string{callA, restA}, "length", []string{`tool_use:f{"a"`}, "max_tokens"},
		"nothing":  {nil, "stop", nil, "end_turn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var asked gjson.Result

			url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				asked = gjson.ParseBytes(text)

				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")

				for _, delta := range c.deltas {
					fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":%s}]}\r\n\r\n", delta)
				}

				fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":%q}]}\n\n", c.finish)
				fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}}\n\n")

				if name != "text" { // a source may end without it
					fmt.Fprint(w, "data: [DONE]\n\n")
				}
			})
			res := start(t, one(url, ""), 0).ask(`{` + question + `,"stream":true}`)
			require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
			all := events(t, read(t, res))
			require.True(t, asked.Get("stream_options.include_usage").Bool())
			require.Equal(t, c.blocks, blocks(all))
			require.Equal(t, "message_start", all[0].name)
			require.Equal(t, "gpt-x", all[0].data.Get("message.model").String())
			require.Equal(t, "message_stop", all[len(all)-1].name)
			last := all[len(all)-2].data
			require.Equal(t, c.reason, last.Get("delta.stop_reason").String())
			require.Equal(t, "[5,6]", last.Get("usage").Get("[input_tokens,output_tokens]").Raw)
		})
	}
}

func TestService_messages_stream_ofAWholeAnswer(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"choices":[{"message":{"content":"x","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},
			"finish_reason":"tool_calls"}]}`)
	})
	all := events(t, read(t, start(t, one(url, ""), 0).ask(`{`+question+`,"stream":true}`)))
	require.Equal(t, []string{"text:x", "tool_use:f{}"}, blocks(all))
	require.Equal(t, "message_stop", all[len(all)-1].name)
}

func TestService_messages_stream_brokenEndsWithAnError(t *testing.T) {
	t.Parallel()

	const piece = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for name, c := range map[string]struct{ sent, kind, code string }{
		"clean end": {piece, "api_error", "source_cut"},
		"at once":   {"", "api_error", "source_cut"},
		"own error": {piece + "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\n", "rate_limit_error", "429"},
		"no JSON":   {piece + "data: {\n\n", "api_error", "source_error"},
		"bad arguments": {
			"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"[\"}}]}}]}\n\ndata: [DONE]\n\n",
			"api_error", "source_error",
		},
		"no name": {
			"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"{}\"}}]}}]}\n\ndata: [DONE]\n\n",
			"api_error", "source_error",
		},
		"silence": {piece, "timeout_error", "source_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, c.sent)

				if name == "silence" {
					_ = http.NewResponseController(w).Flush()

					<-r.Context().Done()
				}
			})

			ask := func(settings string, keepAlive time.Duration) string {
				return read(t, start(t, one(url, settings), keepAlive).ask(`{`+question+`,"stream":true}`))
			}

			var text string
			if name == "silence" {
				text = silence(t, "event: ping", func(idle string) string { return ask(idle, 20*time.Millisecond) })
			} else { // without pings and timeouts, which a slow machine would see
				text = ask("", 0)
			}

			require.Equal(t, 1, strings.Count(text, "event: error"), text)
			require.NotContains(t, text, "message_stop")
			last := gjson.Parse(text[strings.LastIndex(text, "data: ")+6:])
			require.Equal(t, c.kind, last.Get("error.type").String(), text)
			require.Equal(t, c.code, last.Get("error.code").String())
			require.Equal(t, name == "silence", strings.Contains(text, "event: ping\ndata: {\"type\":\"ping\"}\n\n"))
		})
	}
}

func TestService_messages_errors(t *testing.T) {
	t.Parallel()

	for status, kind := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error", 504: "timeout_error",
		529: "overloaded_error",
	} {
		url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":{"message":"key secret-of-the-source","code":"own"}}`)
		})
		res := start(t, one(url, ""), 0).ask(`{` + question + `}`)
		require.Equal(t, status, res.StatusCode)
		require.Equal(t, "7", res.Header.Get("Retry-After"))
		require.JSONEq(t, fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"key ***","code":"own"},"request_id":%q}`,
			kind, res.Header.Get("Request-Id")), read(t, res))
	}

	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"choices":[]}`) })

	s := start(t, one(url, ""), 0)
	for name, c := range map[string]struct {
		key, path, body, kind, code string
		status                      int
	}{
		"no key":  {"", "", `{}`, "authentication_error", "invalid_api_key", 401},
		"no JSON": {operatorKey, "", `{`, "invalid_request_error", "invalid_request", 400},
		"no model": {
			operatorKey, "", strings.Replace(`{`+question+`}`, "gpt-x", "none", 1),
			"not_found_error", "model_not_found", 404,
		},
		"no completion":    {operatorKey, "", `{` + question + `}`, "api_error", "source_error", 502},
		"no route":         {operatorKey, "/batches", `{` + question + `}`, "not_found_error", "route_not_found", 404},
		"no key to count":  {"", "/count_tokens", `{` + question + `}`, "authentication_error", "invalid_api_key", 401},
		"nothing to count": {operatorKey, "/count_tokens", `{"model":"m"}`, "invalid_request_error", "invalid_request", 400},
	} {
		res := s.do(t.Context(), http.MethodPost, "/v1/messages"+c.path, c.key, c.body)
		text := read(t, res)
		require.Equal(t, c.status, res.StatusCode, name)
		require.Equal(t, "error", gjson.Get(text, "type").String(), name)
		require.Equal(t, fmt.Sprintf("[%q,%q]", c.kind, c.code), gjson.Get(text, "error").Get("[type,code]").Raw, name)
	}
}

// A client of threads sends the whole conversation after this error.
func TestService_messages_thread(t *testing.T) {
	t.Parallel()

	s := start(t, one(upstream(t, http.NotFound), ""), 0)
	res := s.ask(`{` + question + `,"thread":{"type":"create"}}`)
	text := read(t, res)
	require.Equal(t, 400, res.StatusCode, text)
	require.JSONEq(t, `{"error_code":"thread_unsupported_request","unsupported":[]}`, gjson.Get(text, "error.details").Raw)
}

func TestService_messages_namesOmittedTools(t *testing.T) {
	t.Parallel()

	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, saidYes) })
	s := start(t, one(url, ""), 0)

	res := s.ask(`{` + question + `,"tools":[{"type":"web_search_20250305","name":"web_search"},
		{"type":"mcp_toolset","name":"a b,\n"},{"name":"f","input_schema":{}}]}`)
	text := read(t, res)
	require.Equal(t, 200, res.StatusCode, text)
	require.Equal(t, "web_search, a_b__", res.Header.Get("X-Everloop-Omitted-Tools"))

	res = s.ask(`{` + question + `}`)
	require.Empty(t, res.Header.Values("X-Everloop-Omitted-Tools"))
}

func TestService_countTokens(t *testing.T) {
	t.Parallel()

	var asked gjson.Result

	counts := start(t, one(upstream(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked = gjson.ParseBytes(text)

		if r.URL.Path == "/v1/messages/count_tokens" {
			fmt.Fprint(w, `{"input_tokens":77}`)
		}
	}), ""), 0)
	silent := start(t, one(upstream(t, http.NotFound), ""), 0)

	count := func(s *server, body string) int64 {
		t.Helper()

		res := s.do(t.Context(), http.MethodPost, "/v1/messages/count_tokens?beta=true", operatorKey, body)
		text := read(t, res)
		require.Equal(t, 200, res.StatusCode, text)
		require.Equal(t, "m", res.Header.Get("X-Resolved-Model"))

		return gjson.Get(text, "input_tokens").Int()
	}

	const body = `{"model":"gpt-x","messages":[{"role":"user","content":"hi"}]}`

	require.Equal(t, int64(77), count(counts, body))
	require.Equal(t, "m", asked.Get("model").String())

	few := count(silent, body)
	require.Positive(t, few)
	require.Greater(t, count(silent, strings.Replace(body, "hi", strings.Repeat("word ", 1000), 1)), few+1000)

	image := `{"model":"gpt-x","messages":[{"role":"assistant","content":"a"},{"role":"user","content":[{"type":"image","source":
		{"type":"base64","media_type":"image/png","data":"` + strings.Repeat("aaaa", 100_000) + `"}}]},{"role":"assistant","content":"a"}]}`
	require.InDelta(t, 1600, count(silent, image), 200)
}
