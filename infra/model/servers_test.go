package model_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

const (
	listFiles = `{"command": "ls"}`
	readFile  = `{"file_path": "x"}`
)

func bashCall(id string) domain.RequestedCall {
	return domain.RequestedCall{ID: id, Name: "Bash", Arguments: listFiles}
}

func readCall(id string) domain.RequestedCall {
	return domain.RequestedCall{ID: id, Name: "Read", Arguments: readFile}
}

// answers are answers in the shapes of the known servers: the choices of the
// chunks of a stream, and the choice of the same answer in one piece.
var answers = map[string]struct {
	chunks         []string
	whole          string
	calls          []domain.RequestedCall
	text, thinking string
	field          string
	members        string // of the message
}{
	"OpenAI": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"content":"Lo"},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"content":"ok."},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_abc","type":"function","function":{"name":"Bash","arguments":""}}]},` +
				`"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"com"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"mand\": \"ls\"}"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":"Look.","refusal":null,"annotations":[],"tool_calls":[{"id":"call_abc",` +
			`"type":"function","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]},"logprobs":null,"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("call_abc")},
		text:  "Look.",
	},
	"Gemini": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"function-call-1","type":"function","function":{"name":"Bash",` +
				`"arguments":"{\"command\": \"ls\"}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}}`,
			`{"index":0,"delta":{"role":"assistant"},"finish_reason":"stop"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"function-call-1","type":"function","function":{"name":"Bash",` +
			`"arguments":"{\"command\": \"ls\"}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]},"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{
			{
				ID:            "function-call-1",
				Name:          "Bash",
				Arguments:     listFiles,
				ServerMembers: `{"extra_content":{"google":{"thought_signature":"c2ln"}}}`,
			},
		},
	},
	"Mistral, thinking": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`,
			`{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]},"finish_reason":null}`,
			`{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"}],"closed":true}]},"finish_reason":null}`,
			`{"index":0,"delta":{"content":"Look."},"finish_reason":"stop"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"h"},` +
			`{"type":"text","text":"m"}],"closed":true},{"type":"text","text":"Look."}]},"finish_reason":"stop"}`,
		text: "Look.", thinking: "hm",
		members: `{"content":[{"closed":true,"thinking":[{"text":"h","type":"text"},{"text":"m","type":"text"}],"type":"thinking"}]}`,
	},
	"Anthropic behind a gateway": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":"h","thinking_blocks":[{"type":"thinking","thinking":"h"}]}}`,
			`{"index":0,"delta":{"content":"","reasoning_content":"m","thinking_blocks":[{"type":"thinking","thinking":"m"}]}}`,
			`{"index":0,"delta":{"content":"","reasoning_content":"","thinking_blocks":[{"type":"thinking","thinking":"","signature":"c2ln"}]}}`,
			`{"index":0,"delta":{"content":null,"tool_calls":[{"id":"toolu_01A","type":"function","index":0,"function":{"name":"Bash",` +
				`"arguments":""}}]}}`,
			`{"index":0,"delta":{"tool_calls":[{"type":"function","index":0,"function":{"arguments":"{\"command\": \"ls\"}"}}]}}`,
			`{"index":0,"delta":{},"finish_reason":"tool_calls"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"hm","thinking_blocks":[{"type":"thinking",` +
			`"thinking":"hm","signature":"c2ln"}],"tool_calls":[{"id":"toolu_01A","type":"function","index":0,"function":{"name":"Bash",` +
			`"arguments":"{\"command\": \"ls\"}"}}]},"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("toolu_01A")}, thinking: "hm", field: domain.ReasoningContent,
		members: `{"thinking_blocks":[{"signature":"c2ln","thinking":"hm","type":"thinking"}]}`,
	},
	"vLLM, Hermes parser": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"id":"chatcmpl-tool-2c1b6d0e0f1a4b7e9d5c3a8f7e6d5c4b","type":"function","index":0,` +
				`"function":{"name":"Bash"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\": ` +
				`\""}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"ls"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"id":"chatcmpl-tool-00000d0e0f1a4b7e9d5c3a8f7e6d5c4b","type":"function","index":1,` +
				`"function":{"name":"Read"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"file_path\": ` +
				`\"x\"}"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"annotations":null,"function_call":null,
			"reasoning_content":null,"tool_calls":[
			{"id":"chatcmpl-tool-2c1b6d0e0f1a4b7e9d5c3a8f7e6d5c4b","type":"function",
			"function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}},
			{"id":"chatcmpl-tool-00000d0e0f1a4b7e9d5c3a8f7e6d5c4b","type":"function",
			"function":{"name":"Read","arguments":"{\"file_path\": \"x\"}"}}]},
			"logprobs":null,"finish_reason":"tool_calls","stop_reason":null}`,
		calls: []domain.RequestedCall{
			bashCall("chatcmpl-tool-2c1b6d0e0f1a4b7e9d5c3a8f7e6d5c4b"), readCall("chatcmpl-tool-00000d0e0f1a4b7e9d5c3a8f7e6d5c4b"),
		},
	},
	"vLLM, Mistral parser": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"id":"bbc5b7ede","type":"function","index":0,"function":{"name":"Bash","arguments":"{` +
				`\"command\": \"ls"}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"content":""},"finish_reason":"tool_calls"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":"","tool_calls":[{"id":"bbc5b7ede","type":"function","function":{` +
			`"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]},"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("bbc5b7ede")},
	},
	"SGLang": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null},"logprobs":null,` +
				`"finish_reason":null,"matched_stop":null}`,
			`{"index":0,"delta":{"role":null,"content":null,"reasoning_content":"hm","tool_calls":null},"logprobs":null,` +
				`"finish_reason":null,"matched_stop":null}`,
			`{` +
				`"index":0,` +
				`"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":"call_1e0a6f5c2b7d48f0a9c3e1d2",` +
				`"index":0,"type":"function","function":{"name":"Bash","arguments":""}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":null,"index":0,` +
				`"type":"function","function":{"name":null,"arguments":"{\"command\": "}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":null,"index":0,` +
				`"type":"function","function":{"name":null,"arguments":"\"ls\"}"}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":null},"finish_reason":"tool_calls",` +
				`"matched_stop":null}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{` +
			`"id":"call_1e0a6f5c2b7d48f0a9c3e1d2","index":0,"type":"function","function":{"name":"Bash","arguments":"{\"command\": ` +
			`\"ls\"}"}}]},"finish_reason":"tool_calls","matched_stop":null}`,
		calls: []domain.RequestedCall{bashCall("call_1e0a6f5c2b7d48f0a9c3e1d2")}, thinking: "hm", field: domain.ReasoningContent,
	},
	"llama.cpp": {
		chunks: []string{
			`{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}`,
			`{"finish_reason":null,"index":0,"delta":{"reasoning_content":"hm"}}`,
			`{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"id":"TzWzOLNmPBDJ0y4HrqNbXg7aCh4gQPHt",` +
				`"type":"function","function":{"name":"Bash","arguments":"{"}}]}}`,
			`{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"command\": \"ls\""}}]}}`,
			`{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}`,
			`{"finish_reason":"tool_calls","index":0,"delta":{}}`,
		},
		whole: `{"finish_reason":"tool_calls","index":0,"message":{"role":"assistant","reasoning_content":"hm","content":null,` +
			`"tool_calls":[{"type":"function","function":{"name":"Bash","arguments":"{\"command\": ` +
			`\"ls\"}"},"id":"TzWzOLNmPBDJ0y4HrqNbXg7aCh4gQPHt"}]}}`,
		calls: []domain.RequestedCall{bashCall("TzWzOLNmPBDJ0y4HrqNbXg7aCh4gQPHt")}, thinking: "hm", field: domain.ReasoningContent,
	},
	"Ollama, whole calls with index 0 and stop": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm"},"finish_reason":null}`,
			`{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_zmo1t9iy","index":0,"type":"function",` +
				`"function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_4kqn2b7c","index":0,"type":"function",` +
				`"function":{"name":"Read","arguments":"{\"file_path\": \"x\"}"}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":"","reasoning":"hm","tool_calls":[
			{"id":"call_zmo1t9iy","index":0,"type":"function","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}},
			{"id":"call_4kqn2b7c","index":0,"type":"function","function":{"name":"Read","arguments":"{\"file_path\": \"x\"}"}}]},
			"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("call_zmo1t9iy"), readCall("call_4kqn2b7c")}, thinking: "hm", field: domain.Reasoning,
	},
	"Kimi K2": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`,
			`{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}`,
			`{"index":0,"delta":{"content":"Look."},"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"functions.Bash:0","type":"function","function":{"name":"Bash",` +
				`"arguments":""}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\": \"ls\"}"}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"functions.Read:1","type":"function","function":{"name":"Read",` +
				`"arguments":""}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"file_path\": \"x\"}"}}]},"finish_reason":null}`,
			`{"index":0,"delta":{},"finish_reason":"tool_calls","usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":"Look.","reasoning_content":"hm","tool_calls":[
			{"index":0,"id":"functions.Bash:0","type":"function","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}},
			{"index":1,"id":"functions.Read:1","type":"function","function":{"name":"Read","arguments":"{\"file_path\": \"x\"}"}}]},
			"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("functions.Bash:0"), readCall("functions.Read:1")},
		text:  "Look.", thinking: "hm", field: domain.ReasoningContent,
	},
	"Mistral, whole call with the finish reason": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`,
			`{"index":0,"delta":{"content":"","tool_calls":[{"id":"D681PevKs","function":{"name":"Bash","arguments":"{\"command\": ` +
				`\"ls\"}"},"index":0}]},"finish_reason":"tool_calls"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"D681PevKs","function":{"name":"Bash","arguments":"{` +
			`\"command\": \"ls\"}"},"index":0}],"content":""},"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("D681PevKs")},
	},
	"DeepSeek": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":""},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"content":null,"reasoning_content":"h"},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"content":null,"reasoning_content":"m"},"logprobs":null,"finish_reason":null}`,
			`{` +
				`"index":0,` +
				`"delta":{"content":null,"reasoning_content":null,"tool_calls":[{"index":0,"id":"call_00_Qm4tY1bPz8kEwLr0xVn2aSdF",` +
				`"type":"function","function":{"name":"Bash","arguments":""}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"command\": ` +
				`\"ls\"}"}}]},"logprobs":null,"finish_reason":null}`,
			`{"index":0,"delta":{"content":"","reasoning_content":null},"logprobs":null,"finish_reason":"tool_calls"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"index":0,` +
			`"id":"call_00_Qm4tY1bPz8kEwLr0xVn2aSdF","type":"function","function":{"name":"Bash","arguments":"{\"command\": ` +
			`\"ls\"}"}}]},"logprobs":null,"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("call_00_Qm4tY1bPz8kEwLr0xVn2aSdF")}, thinking: "hm", field: domain.ReasoningContent,
	},
	"GLM": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","reasoning_content":"hm"}}`,
			`{"index":0,"delta":{"role":"assistant","content":"Look."}}`,
			`{"index":0,"delta":{"role":"assistant","tool_calls":[{"id":"call_-8231168139794583938","index":0,"type":"function",` +
				`"function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]}}`,
			`{"index":0,"finish_reason":"tool_calls","delta":{"role":"assistant","content":""}}`,
		},
		whole: `{"finish_reason":"tool_calls","index":0,"message":{"content":"Look.","reasoning_content":"hm","role":"assistant",` +
			`"tool_calls":[{"function":{"arguments":"{\"command\": ` +
			`\"ls\"}","name":"Bash"},"id":"call_-8231168139794583938","index":0,"type":"function"}]}}`,
		calls: []domain.RequestedCall{bashCall("call_-8231168139794583938")}, text: "Look.", thinking: "hm", field: domain.ReasoningContent,
	},
	"OpenRouter, gpt-oss": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","content":"","reasoning":"h","reasoning_details":[{"type":"reasoning.text",` +
				`"text":"h","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}`,
			`{"index":0,"delta":{"role":"assistant","content":"","reasoning":"m","reasoning_details":[{"type":"reasoning.text",` +
				`"text":"m","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}`,
			`{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"id":"call_f3f8b8d2a6e94bd5","index":0,` +
				`"type":"function","function":{"name":"Bash","arguments":""}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"type":"function","function":{` +
				`"arguments":"{\"command\": \"ls\"}"}}]},"finish_reason":null}`,
			`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"tool_calls","native_finish_reason":"stop",` +
				`"logprobs":null}`,
		},
		whole: `{"logprobs":null,"finish_reason":"tool_calls","native_finish_reason":"stop",
			"index":0,"message":{"role":"assistant","content":"","refusal":null,"reasoning":"hm",
			"reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}],
			"tool_calls":[{"id":"call_f3f8b8d2a6e94bd5","index":0,"type":"function",
			"function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]}}`,
		calls: []domain.RequestedCall{bashCall("call_f3f8b8d2a6e94bd5")}, thinking: "hm", field: domain.Reasoning,
		members: `{"reasoning_details":[{"index":0,"text":"hm","type":"reasoning.text"}]}`,
	},
	"both reasoning fields with the same text": {
		chunks: []string{
			`{"index":0,"delta":{"reasoning_content":"hm","reasoning":"hm"}}`, `{"index":0,"delta":{"content":"Look."},` +
				`"finish_reason":"stop"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","content":"Look.","reasoning_content":"hm","reasoning":"hm"},` +
			`"finish_reason":"stop"}`,
		text: "Look.", thinking: "hm", field: domain.ReasoningContent,
	},
	"no ids, no index": {
		chunks: []string{
			`{"index":0,"delta":{"tool_calls":[{"function":{"name":"Bash","arguments":"{\"command\": "}}]}}`,
			`{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"\"ls\"}"}}]}}`,
			`{"index":0,"delta":{"tool_calls":[{"function":{"name":"Read","arguments":"{\"file_path\": \"x\"}"}}]},"finish_reason":"stop"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","tool_calls":[{"function":{"name":"Bash","arguments":{"command": ` +
			`"ls"}}},{"function":{"name":"Read","arguments":{"file_path": "x"}}}]},"finish_reason":"stop"}`,
		calls: []domain.RequestedCall{bashCall(""), readCall("")},
	},
	"empty ids and index 0 for every whole call": {
		chunks: []string{
			`{"index":0,"delta":{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"command\": ` +
				`\"ls\"}","name":"Bash"},"id":"","index":0,"type":"function"}]}}`,
			`{"index":0,"delta":{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"file_path\": ` +
				`\"x\"}","name":"Read"},"id":"","index":0,"type":"function"}]},"finish_reason":"stop"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"","index":0,"function":{"name":"Bash","arguments":"{` +
			`\"command\": \"ls\"}"}},{"id":"","index":0,"function":{"name":"Read","arguments":"{\"file_path\": ` +
			`\"x\"}"}}]},"finish_reason":"stop"}`,
		calls: []domain.RequestedCall{bashCall(""), readCall("")},
	},
	"one id for two calls": {
		chunks: []string{
			`{"index":0,"delta":{"tool_calls":[{"id":"null","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]}}`,
			`{"index":0,"delta":{"tool_calls":[{"id":"null","function":{"name":"Read","arguments":"{\"file_path\":"}}]}}`,
			`{"index":0,"delta":{"tool_calls":[{"id":"null","function":{"arguments":" \"x\"}"}}]},"finish_reason":"tool_calls"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"null","function":{"name":"Bash","arguments":"{` +
			`\"command\": \"ls\"}"}},{"id":"null","function":{"name":"Read","arguments":"{\"file_path\": ` +
			`\"x\"}"}}]},"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("null"), readCall("null")},
	},
	"odd ids": {
		chunks: []string{
			`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"ü/ \"1\" 😀\n","function":{"name":"Bash","arguments":"{\"command\": ` +
				`\"ls\"}"}}]}}`,
			`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"a\u0000b","function":{"name":"Read","arguments":"{\"file_path\": ` +
				`\"x\"}"}}]},"finish_reason":"tool_calls"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"ü/ \"1\" ` +
			`😀\n","function":{"name":"Bash","arguments":"{\"command\": ` +
			`\"ls\"}"}},{"id":"a\u0000b","function":{"name":"Read","arguments":"{\"file_path\": \"x\"}"}}]},
			"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall("ü/ \"1\" 😀\n"), readCall("")}, // the database cannot keep the second
	},
	"long ids": {
		chunks: []string{
			`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"` + strings.Repeat("s", domain.MaxServerCallID) +
				`","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]}}`,
			`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"` + strings.Repeat("s", domain.MaxServerCallID+1) +
				`","function":{"name":"Read","arguments":"{\"file_path\": \"x\"}"}}]},` +
				`"finish_reason":"tool_calls"}`,
		},
		whole: `{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"` + strings.Repeat("s", domain.MaxServerCallID) +
			`","function":{"name":"Bash","arguments":{"command": "ls"}}}]},"finish_reason":"tool_calls"}`,
		calls: []domain.RequestedCall{bashCall(strings.Repeat("s", domain.MaxServerCallID)), readCall("")},
	},
}

func TestClient_Stream_readsTheAnswersOfKnownServers(t *testing.T) {
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			lines := []string{": PROCESSING"}
			for _, choice := range a.chunks {
				lines = append(lines, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[`+choice+`]}`)
			}

			streamed, err := call(t, server(t, events(append(lines, usage, done)...)))
			require.NoError(t, err)
			whole, err := call(t, server(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(
					w,
					`{"id":"x","object":"chat.completion","model":"m","choices":[%s],"usage":{"prompt_tokens":11,"completion_tokens":7}}`,
					a.whole,
				)
			}))
			require.NoError(t, err)

			want := domain.Reply{
				Text: a.text, Thinking: a.thinking, ReasoningField: a.field, Calls: a.calls, FinishReason: "stop", Model: "m",
				ServerMembers: a.members, Usage: domain.Usage{InputTokens: 11, OutputTokens: 7},
			}
			if len(a.calls) > 0 {
				want.FinishReason = "tool_calls"
			}

			require.Equal(t, want, streamed)

			if name == "long ids" {
				want.Calls = want.Calls[:1]
			}

			require.Equal(t, want, whole)
		})
	}
}
