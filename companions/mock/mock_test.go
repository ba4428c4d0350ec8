package mock_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
	"everloop/domain"
	"everloop/infra/model"
)

// bed is a running service with its clients.
type bed struct {
	t      *testing.T
	url    string
	client *model.Client
}

func start(t *testing.T, cfg mock.Config) *bed {
	t.Helper()

	s := httptest.NewServer(mock.New(cfg).Handler())
	t.Cleanup(s.Close)

	return &bed{t: t, url: s.URL, client: model.New(model.Config{BaseURL: s.URL, Key: "sk-mine"})}
}

// allTools are the names of the agent's tools.
var allTools = []string{"Bash", "Read", "Write", "Edit", "Glob", "Grep", "AskUserQuestion", "TaskCreate", "Agent"}

func specs(names ...string) []domain.ToolSpec {
	var out []domain.ToolSpec
	for _, n := range names {
		out = append(out, domain.ToolSpec{Name: n, Description: n})
	}

	return out
}

func say(role, text string) domain.PromptMessage {
	return domain.PromptMessage{Role: role, Parts: []domain.ContentPart{{Type: "text", Text: text}}}
}

// script returns a user message with a script.
func script(json string) domain.PromptMessage {
	return say("user", "please [[script]]"+json+"[[/script]] thanks")
}

func prompt(tools []domain.ToolSpec, messages ...domain.PromptMessage) domain.Prompt {
	return domain.Prompt{Model: mock.DemoModel, Messages: messages, Tools: tools}
}

func (b *bed) stream(p domain.Prompt) (domain.Reply, error) {
	b.t.Helper()

	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	defer cancel()

	return b.client.Stream(ctx, p, nil)
}

func (b *bed) must(p domain.Prompt) domain.Reply {
	b.t.Helper()
	reply, err := b.stream(p)
	require.NoError(b.t, err)

	return reply
}

// post sends a raw body and returns status and response.
func (b *bed) post(body string) (int, string) {
	b.t.Helper()
	res, err := http.Post(b.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(b.t, err)

	defer res.Body.Close()

	answer, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)

	return res.StatusCode, string(answer)
}

func (b *bed) do(method, path string, into any) int {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, nil)
	require.NoError(b.t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)

	defer res.Body.Close()

	body, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)

	if into != nil {
		require.NoError(b.t, json.Unmarshal(body, into), string(body))
	}

	return res.StatusCode
}

// play runs a conversation to its end with canned tool results and returns the replies. It
// answers every question with the label.
func (b *bed) play(tools []domain.ToolSpec, choice string, messages ...domain.PromptMessage) []domain.Reply {
	b.t.Helper()

	var replies []domain.Reply

	for range 40 {
		reply := b.must(prompt(tools, messages...))

		replies = append(replies, reply)
		if len(reply.Calls) == 0 {
			return replies
		}

		assistant := say("assistant", reply.Text)
		assistant.Calls = earlier(reply.Calls)
		messages = append(messages, assistant)

		for _, call := range reply.Calls {
			require.True(b.t, json.Valid([]byte(call.Arguments)), call.Arguments)

			result := say("tool", "result of "+call.Name)
			if call.Name == "AskUserQuestion" {
				result = say("tool", answers(b.t, call.Arguments, choice))
			}

			result.ToolCallID = call.ID
			messages = append(messages, result)
		}
	}

	b.t.Fatal("the conversation does not end")

	return nil
}

// earlier converts the calls of an answer for a later prompt.
func earlier(calls []domain.RequestedCall) (out []domain.PromptCall) {
	for _, call := range calls {
		out = append(out, domain.PromptCall{ID: call.ID, ServerID: call.ID, Name: call.Name, Arguments: call.Arguments})
	}

	return out
}

// answers selects the choice in every question, or else the first option.
func answers(t *testing.T, arguments, choice string) string {
	var asked struct {
		Questions []struct {
			Question string
			Options  []struct{ Label string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(arguments), &asked))
	require.NotEmpty(t, asked.Questions)

	var list []map[string]any

	for _, q := range asked.Questions {
		require.GreaterOrEqual(t, len(q.Options), 2)

		label := q.Options[0].Label
		for _, o := range q.Options {
			if o.Label == choice {
				label = choice
			}
		}

		list = append(list, map[string]any{"question": q.Question, "selected": []string{label}, "custom": nil})
	}

	text, err := json.Marshal(map[string]any{"answers": list})
	require.NoError(t, err)

	return string(text)
}

// used returns the names of the called tools in order.
func used(replies []domain.Reply) []string {
	var out []string

	for _, r := range replies {
		for _, c := range r.Calls {
			out = append(out, c.Name)
		}
	}

	return out
}

func TestMetaEndpoints(t *testing.T) {
	b := start(t, mock.Config{})

	var health map[string]string
	require.Equal(t, 200, b.do("GET", "/health", &health))
	require.Equal(t, map[string]string{"status": "ok"}, health)

	list, err := b.client.Models(t.Context())
	require.NoError(t, err)
	require.Equal(t, mock.DemoModel, list[0].ID)
	require.Equal(t, "Everloop demo (scripted, not a real model)", list[0].Name)
	require.EqualValues(t, 128_000, list[0].ContextWindow)

	var one map[string]any
	require.Equal(t, 200, b.do("GET", "/v1/models/"+mock.SmallModel, &one))
	require.EqualValues(t, 8000, one["context_window"])

	wrong, err := http.Post(b.url+"/health", "application/json", nil) //nolint:gosec,noctx // of this test
	require.NoError(t, err)
	require.NoError(t, wrong.Body.Close())
	require.Equal(t, 405, wrong.StatusCode)
	require.Equal(t, "GET, HEAD", wrong.Header.Get("Allow"))
	require.NotEmpty(t, wrong.Header.Get("X-Request-Id"))

	res, err := http.Get(b.url + "/")
	require.NoError(t, err)

	defer res.Body.Close()

	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, string(page), "[[script]]")
}

func TestPageNamesEveryField(t *testing.T) {
	b := start(t, mock.Config{})
	res, err := http.Get(b.url + "/")
	require.NoError(t, err)

	defer res.Body.Close()

	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)

	zero := 0
	raw, closing := "", ""
	whole, err := json.Marshal(mock.Script{
		Loop: &mock.Loop{Text: "x"}, Echo: true, Closing: &closing, Sticky: true, Summary: &mock.Step{}, Note: "x",
		Steps: []mock.Step{{
			Thinking: "x", Text: "x", Tokens: 1, Calls: []mock.Call{{ID: "x", Raw: &raw, Arguments: json.RawMessage("{}")}}, Echo: true,
			FirstDelayMS: 1, DelayMS: 1, Chunk: 1, FinishReason: "x", NoFinish: true, NoDone: true, Usage: &mock.Usage{},
			Hold: true, HoldAfter: 1, Status: 1, ErrorCode: "x", ErrorMessage: "x", RetryAfter: 1, CutAfter: &zero,
			ErrorMidStream: true, Malformed: true, FailTimes: 1,
		}},
	})
	require.NoError(t, err)

	var fields map[string]any
	require.NoError(t, json.Unmarshal(whole, &fields))

	step := fields["steps"].([]any)[0].(map[string]any)
	for _, m := range []map[string]any{fields, step} {
		for name := range m {
			require.Contains(t, string(page), "<code>"+name+"</code>")
		}
	}
}

func TestStreamOnTheWire(t *testing.T) {
	b := start(t, mock.Config{})
	body := `{"model":"everloop-demo","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":
		"[[script]]{\"steps\":[{\"thinking\":\"so so\",\"text\":\"one two\",` +
		`\"calls\":[{\"name\":\"Bash\",\"id\":\"call_1\",\"arguments\":{\"command\":\"ls -la\"}}]}]}"}]}`
	res, err := http.Post(b.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)

	defer res.Body.Close()

	require.Contains(t, res.Header.Get("Content-Type"), "text/event-stream")

	var (
		kinds     []string
		arguments strings.Builder
	)

	id := ""

	scan := bufio.NewScanner(res.Body)
	for scan.Scan() {
		data, found := bytes.CutPrefix(scan.Bytes(), []byte("data: "))
		if !found {
			require.Empty(t, scan.Text())
			continue
		}

		if string(data) == "[DONE]" {
			kinds = append(kinds, "done")
			continue
		}

		var c struct {
			ID, Object, Model string
			Created           int64
			Choices           []struct {
				Delta struct {
					Role             string
					Content          string
					ReasoningContent string `json:"reasoning_content"`
					ToolCalls        []struct {
						Index    *int
						ID, Type string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				FinishReason *string `json:"finish_reason"`
			}
			Usage *mock.Usage
		}
		require.NoError(t, json.Unmarshal(data, &c))
		require.Equal(t, "chat.completion.chunk", c.Object)
		require.Equal(t, mock.DemoModel, c.Model)
		require.NotZero(t, c.Created)

		if id == "" {
			id = c.ID
		}

		require.Equal(t, id, c.ID)

		if len(c.Choices) == 0 {
			require.Equal(t, c.Usage.PromptTokens+c.Usage.CompletionTokens, c.Usage.TotalTokens)

			kinds = append(kinds, "usage")

			continue
		}

		d := c.Choices[0].Delta
		switch {
		case c.Choices[0].FinishReason != nil:
			kinds = append(kinds, "finish:"+*c.Choices[0].FinishReason)
		case d.Role != "":
			kinds = append(kinds, "role:"+d.Role)
		case d.ReasoningContent != "":
			kinds = append(kinds, "think:"+d.ReasoningContent)
		case d.Content != "":
			kinds = append(kinds, "text:"+d.Content)
		case len(d.ToolCalls) == 1:
			require.Equal(t, 0, *d.ToolCalls[0].Index)
			arguments.WriteString(d.ToolCalls[0].Function.Arguments)

			if d.ToolCalls[0].ID != "" {
				require.Equal(t, "call_1", d.ToolCalls[0].ID)
				require.Equal(t, "function", d.ToolCalls[0].Type)
				require.Equal(t, "Bash", d.ToolCalls[0].Function.Name)

				kinds = append(kinds, "call")
			} else {
				kinds = append(kinds, "fragment")
			}
		}
	}

	require.NoError(t, scan.Err())
	require.Equal(t, []string{
		"role:assistant", "think:so ", "think:so", "text:one ", "text:two",
		"call", "fragment", "fragment", "fragment", "fragment", "finish:tool_calls", "usage", "done",
	}, kinds)
	require.JSONEq(t, `{"command":"ls -la"}`, arguments.String())
}

func TestWholeCompletion(t *testing.T) {
	b := start(t, mock.Config{})
	status, answer := b.post(
		`{"model":"everloop-demo","messages":[{"role":"user","content":[{"type":"text","text":"[[script]]{\"steps\":[{` +
			`\"thinking\":\"hm\",\"text\":\"one ` +
			`two\",\"calls\":[{\"name\":\"A\",\"id\":\"1\"},{\"name\":\"B\",\"id\":\"2\",\"arguments\":{\"x\":\"a long text for ` +
			`several pieces\"}}]}]}"}]}]}`,
	)
	require.Equal(t, 200, status)

	var c struct {
		Object  string
		Choices []struct {
			Message      json.RawMessage
			FinishReason string `json:"finish_reason"`
		}
		Usage mock.Usage
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &c))
	require.Equal(t, "chat.completion", c.Object)
	require.Equal(t, "tool_calls", c.Choices[0].FinishReason)
	require.Positive(t, c.Usage.TotalTokens)
	require.JSONEq(t, `{"role":"assistant","content":"one two","reasoning_content":"hm","tool_calls":[
		{"id":"1","type":"function","function":{"name":"A","arguments":"{}"}},
		{"id":"2","type":"function","function":{"name":"B","arguments":"{\"x\":\"a long text for several pieces\"}"}}]}`,
		string(c.Choices[0].Message))
}

func TestBadRequests(t *testing.T) {
	b := start(t, mock.Config{KeepRequests: true})

	tests := map[string]struct {
		body   string
		status int
		code   string
	}{
		"not json":              {`{"model":`, 400, "invalid_request"},
		"wrong type":            {`{"model":"everloop-demo","messages":"hi"}`, 400, "invalid_request"},
		"no model":              {`{"messages":[{"role":"user","content":"x"}]}`, 400, "invalid_request"},
		"unknown model":         {`{"model":"gpt-none","messages":[{"role":"user","content":"x"}]}`, 404, "model_not_found"},
		"no messages":           {`{"model":"everloop-demo","messages":[]}`, 400, "invalid_request"},
		"unknown role":          {`{"model":"everloop-demo","messages":[{"role":"wizard","content":"x"}]}`, 400, "invalid_request"},
		"content of wrong type": {`{"model":"everloop-demo","messages":[{"role":"user","content":7}]}`, 400, "invalid_request"},
		"tool without a call": {
			`{"model":"everloop-demo","messages":[{"role":"tool","tool_call_id":"a","content":"x"}]}`,
			400,
			"invalid_request",
		},
		"call without an answer": {
			`{"model":"everloop-demo","messages":[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function",` +
				`"function":{"name":"X","arguments":"{}"}}]},{"role":"user","content":"x"}]}`,
			400,
			"invalid_request",
		},
		"call open at the end": {
			`{"model":"everloop-demo","messages":[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function",` +
				`"function":{"name":"X","arguments":"{}"}}]}]}`,
			400,
			"invalid_request",
		},
		"tool without a name": {
			`{"model":"everloop-demo","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{}}]}`,
			400,
			"invalid_request",
		},
		"script cut": {
			`{"model":"everloop-demo","messages":[{"role":"user","content":"[[script]]{\"steps\":["}]}`,
			400,
			"invalid_script",
		},
		"script with a typo": {
			`{"model":"everloop-demo","messages":[{"role":"user","content":"[[script]]{\"steps\":[{\"txt\":\"a\"}]}"}]}`,
			400,
			"invalid_script",
		},
		"script without orders": {
			`{"model":"everloop-demo","messages":[{"role":"user","content":"[[script]]{}"}]}`,
			400,
			"invalid_script",
		},
		"script with status 200": {
			`{"model":"everloop-demo","messages":[{"role":"user","content":"[[script]]{\"steps\":[{\"status\":200}]}"}]}`,
			400,
			"invalid_script",
		},
		"script beyond bounds": {
			`{"model":"everloop-demo","messages":[{"role":"user","content":"[[script]]{\"steps\":[{\"tokens\":100000000}]}"}]}`,
			400,
			"invalid_script",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			status, answer := b.post(tt.body)
			require.Equal(t, tt.status, status, answer)

			var e struct {
				Error struct{ Message, Type, Code string }
			}
			require.NoError(t, json.Unmarshal([]byte(answer), &e))
			require.Equal(t, tt.code, e.Error.Code)
			require.NotEmpty(t, e.Error.Message)
			require.NotContains(t, e.Error.Message, "Go ", "types of this program mean nothing to a client")
			require.NotEmpty(t, e.Error.Type)
		})
	}

	var e struct{ Error struct{ Code string } }
	require.Equal(t, 404, b.do("GET", "/nowhere", &e))
	require.Equal(t, "route_not_found", e.Error.Code)
	require.Equal(t, 404, b.do("GET", "/v1/models/none", &e))
	require.Equal(t, "model_not_found", e.Error.Code)
	require.Equal(t, 400, b.do("GET", "/control/requests?limit=x", nil))
}
