package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// What a source sends that it needs back, whole and in pieces.
const (
	signedCall = `{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},` +
		`"extra_content":{"google":{"thought_signature":"s1"}}}`
	signedDetails = `"reasoning_details":[{"type":"reasoning.encrypted","data":"d1","index":0}]`
)

// signingSource answers with members that it needs back, and passes on what it was asked.
func signingSource(t *testing.T, asked chan<- gjson.Result) string {
	t.Helper()

	return upstream(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked <- gjson.ParseBytes(text)

		if !gjson.GetBytes(text, "stream").Bool() {
			fmt.Fprintf(w, `{"model":"m","choices":[{"message":{"reasoning":"hm","content":"I look",%s,"tool_calls":[%s]},`+
				`"finish_reason":"tool_calls"}]}`, signedDetails, signedCall)

			return
		}

		w.Header().Set("Content-Type", "text/event-stream")

		for _, piece := range []string{
			`{"reasoning":"hm"}`, `{"content":"I look"}`, `{"tool_calls":[` + signedCall + `]}`, `{` + signedDetails + `}`,
		} {
			fmt.Fprintf(w, "data: %s\n\n", delta(piece))
		}

		fmt.Fprint(w, `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
	})
}

// received returns the request that the source got for an answer that has been read.
func received(t *testing.T, asked <-chan gjson.Result) gjson.Result {
	t.Helper()

	select {
	case request := <-asked:
		return request
	default:
		require.Fail(t, "the source got no request")
		return gjson.Result{}
	}
}

// requireReturned holds that a conversation has the members of its first answer.
func requireReturned(t *testing.T, asked gjson.Result, name string) {
	t.Helper()

	said := asked.Get(`messages.#(role=="assistant")`)
	require.Equal(t, "hm", said.Get("reasoning").String(), "%s: in the field in which it came: %s", name, asked.Raw)
	require.False(t, said.Get("reasoning_content").Exists(), name)
	require.Equal(t, "I look", said.Get("content").String(), name)
	require.Equal(t, "d1", said.Get("reasoning_details.0.data").String(), name)
	require.Equal(t, "s1", said.Get("tool_calls.0.extra_content.google.thought_signature").String(), name)
	require.EqualValues(t, 1, asked.Get(`messages.#(role=="assistant")#|#`).Int(), name)
}

// requireNotReturned holds that another model gets none of them.
func requireNotReturned(t *testing.T, asked gjson.Result, name string) {
	t.Helper()
	require.NotContains(t, asked.Raw, "thought_signature", name)
	require.NotContains(t, asked.Raw, "reasoning_details", name)
	require.NotContains(t, asked.Raw, "everloop-1:", name)
}

// TestService_messages_membersComeBack holds that clients of Anthropic's interface carry what
// a source needs back.
func TestService_messages_membersComeBack(t *testing.T) {
	t.Parallel()

	asked := make(chan gjson.Result, 1)
	s := start(t, one(signingSource(t, asked), ""), 0)

	for name, stream := range map[string]bool{"whole": false, "streamed": true} {
		answer := read(t, s.ask(fmt.Sprintf(`{%s,"stream":%v}`, question, stream)))
		received(t, asked)

		content := gjson.Get(answer, "content").Raw
		if stream {
			content = contentOf(t, answer)
		}

		require.Equal(t, "tool_use", gjson.Get(content, "2.type").String(), "%s: %s", name, content)

		next := func(model string) gjson.Result {
			read(
				t,
				s.ask(
					fmt.Sprintf(`{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":%s},`+
						`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"done"}]}]}`, model, content),
				),
			)

			return received(t, asked)
		}

		requireReturned(t, next("gpt-x"), name)
		requireNotReturned(t, next("m"), name)
	}
}

// contentOf puts the blocks of a stream together as clients do.
func contentOf(t *testing.T, text string) string {
	t.Helper()

	var list []string

	for _, e := range events(t, text) {
		switch e.name {
		case "content_block_start":
			list = append(list, e.data.Get("content_block").Raw)
		case "content_block_delta":
			d, last := e.data.Get("delta"), len(list)-1

			for field, value := range map[string]string{
				"text": d.Get("text").String(), "thinking": d.Get("thinking").String(), "signature": d.Get("signature").String(),
			} {
				if value != "" {
					before := gjson.Get(list[last], field).Raw
					list[last] = strings.Replace(list[last], `"`+field+`":`+before, `"`+field+`":`+gjson.Parse(quoted(value)).Raw, 1)
				}
			}
		}
	}

	return "[" + strings.Join(list, ",") + "]"
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

// TestService_responses_membersComeBack holds the same of clients of OpenAI's Responses.
func TestService_responses_membersComeBack(t *testing.T) {
	t.Parallel()

	asked := make(chan gjson.Result, 1)
	s := start(t, one(signingSource(t, asked), ""), 0)
	send := func(body string) string {
		return read(t, s.do(t.Context(), http.MethodPost, "/v1/responses", operatorKey, body))
	}

	for name, stream := range map[string]bool{"whole": false, "streamed": true} {
		answer := send(fmt.Sprintf(`{"model":"gpt-x","input":"hi","stream":%v}`, stream))
		received(t, asked)

		output := gjson.Get(answer, "output")
		if stream {
			output = replayed(t, answer).Get("response.output")
		}

		items := strings.TrimSuffix(strings.TrimPrefix(output.Raw, "["), "]")
		next := func(model string) gjson.Result {
			send(fmt.Sprintf(`{"model":%q,"input":[{"role":"user","content":"hi"},%s,`+
				`{"type":"function_call_output","call_id":"c1","output":"done"}]}`, model, items))

			return received(t, asked)
		}

		requireReturned(t, next("gpt-x"), name)
		requireNotReturned(t, next("m"), name)
	}
}
