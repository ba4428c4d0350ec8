package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// conversations are requests of Anthropic's interface, each with that of chat completions.
var conversations = map[string]struct{ asked, chat string }{
	"text": {
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"<é>"}]}`,
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"<é>"}]}`,
	},
	"fields": {
		`{"max_tokens":9,"temperature":0.50,"top_p":1,"top_k":4,"seed":7,"stop_sequences":["A","B"],"metadata":{"user_id":"u"},
		"service_tier":"standard_only","system":null,"cache_control":{"type":"ephemeral"},"output_config":{"effort":"low",
		"format":{"type":"json_schema","schema":{"type":"object"}}},"stream":true,"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":9,"temperature":0.50,"top_p":1,"top_k":4,"seed":7,"stop":["A","B"],"user":"u","service_tier":"default",
		"reasoning_effort":"low","response_format":{"type":"json_schema","json_schema":{"name":"answer",
		"strict":true,"schema":{"type":"object"}}},
		"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`,
	},
	"thinking": {
		`{"max_tokens":9,"thinking":{"type":"enabled","budget_tokens":2000},"chat_template_kwargs":{"a":1},"messages":[
			{"role":"user","content":"x"}]}`,
		`{"max_tokens":9,"chat_template_kwargs":{"a":1,"enable_thinking":true},"messages":[{"role":"user","content":"x"}]}`,
	},
	"no thinking": {
		`{"max_tokens":9,"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":9,"chat_template_kwargs":{"enable_thinking":false},"messages":[{"role":"user","content":"x"}]}`,
	},
	"system and images": {
		`{"max_tokens":9,"system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}],
		"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},
		{"type":"text","text":"t"},{"type":"image","source":{"type":"url","url":"https://a/b"}}]}]}`,
		`{"max_tokens":9,"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":[
		{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"text","text":"t"},
		{"type":"image_url","image_url":{"url":"https://a/b"}}]}]}`,
	},
	"tools": {
		`{"max_tokens":9,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true}],
		"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"x"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"a"},
		{"type":"tool_use","id":"1","name":"f","input":{"k":1.0}},{"type":"tool_use","id":"2","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"},
		{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]},
		{"type":"tool_result","tool_use_id":"2","is_error":true,"content":"bad"},{"type":"text","text":"go on"}]}]}`,
		`{"max_tokens":9,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},
			"strict":true}}],
		"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"messages":[{"role":"user","content":"x"},
		{"role":"assistant","content":"a","reasoning_content":"hm","tool_calls":[
		{"id":"1","type":"function","function":{"name":"f","arguments":"{\"k\":1.0}"}},
		{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"1","content":"r"},{"role":"tool","tool_call_id":"2","content":"Error: bad"},
		{"role":"user","content":[{"type":"text","text":"Image of the tool result 1:"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"text","text":"go on"}]}]}`,
	},
	"hints": {
		`{"max_tokens":9,"context_management":{"edits":[]},"speed":"fast","betas":["x"],"a_later_hint":{"a":1},
		"thinking":{"type":"adaptive","display":"omitted","later":1},"output_config":{"task_budget":{"type":"tokens"}},
		"tools":[{"name":"f","input_schema":{"type":"object"},"defer_loading":true,"input_examples":[{}],
			"allowed_callers":["direct"],"a_later_hint":1}],"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":9,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
		"messages":[{"role":"user","content":"x"}]}`,
	},
	"tools that the source cannot call": {
		`{"max_tokens":9,"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5},
		{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"},"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":9,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
		"tool_choice":"auto","messages":[{"role":"user","content":"x"}]}`,
	},
	"only tools that the source cannot call": {
		`{"max_tokens":9,"tools":[{"type":"mcp_toolset","mcp_server_name":"a"}],
		"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
	},
	"blocks of other services": {
		`{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","title":"T","citations":{"enabled":true},
			"source":{"type":"text","media_type":"text/plain","data":"words"}},{"type":"text","text":"read"},
			{"type":"document","title":"p.pdf","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}}]},
		{"role":"assistant","content":[{"type":"redacted_thinking","data":"zzz"},
			{"type":"server_tool_use","id":"s","name":"web_search","input":{}},
			{"type":"web_search_tool_result","tool_use_id":"s","content":[]},
			{"type":"text","text":"a","citations":[{"type":"char_location","cited_text":"words"}]},
			{"type":"tool_use","id":"1","name":"f","input":{},"caller":{"type":"code_execution_20260120"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[
			{"type":"search_result","title":"R","source":"https://a","content":[{"type":"text","text":"found"}]},
			{"type":"tool_reference","tool_name":"g"},{"type":"document","source":{"type":"url","url":"https://a/b.pdf"}}]}]}]}`,
		`{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"T\n\nwords"},{"type":"text","text":"read"},
			{"type":"text","text":"[document p.pdf application/pdf omitted: the model server cannot read it]"}]},
		{"role":"assistant","content":"a","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"1","content":
			"R\n\nfound\nhttps://a\nTool: g\n[document https://a/b.pdf omitted: the model server cannot read it]"}]}`,
	},
	"only redacted thinking": {
		`{"max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"redacted_thinking",
		"data":"zzz"}]},{"role":"user","content":"y"}]}`,
		`{"max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":""},{"role":"user","content":"y"}]}`,
	},
	"system prompts in the middle": {
		`{"max_tokens":9,"system":"a","messages":[{"role":"system","content":"b"},{"role":"user","content":"x"},
		{"role":"developer","content":[{"type":"text","text":"c"}]},{"role":"user","content":[{"type":"text","text":"y"},
			{"type":"image","source":{"type":"url","url":"https://a/b"}}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"system","content":"d"},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]},
		{"role":"assistant","content":"e"},{"role":"system","content":"f"}]}`,
		`{"max_tokens":9,"messages":[{"role":"system","content":"a\n\nb"},
		{"role":"user","content":[{"type":"text","text":"x\n\nc"},{"type":"text","text":"y"},
			{"type":"image_url","image_url":{"url":"https://a/b"}}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"1","content":"r"},{"role":"user","content":"d"},
		{"role":"assistant","content":"e"},{"role":"user","content":"f"}]}`,
	},
	"any tool": {
		`{"max_tokens":9,"tool_choice":{"type":"any"},"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":9,"tool_choice":"required","messages":[{"role":"user","content":"x"}]}`,
	},
}

func TestToChat(t *testing.T) {
	t.Parallel()

	for name, c := range conversations {
		chat, fault := toChat([]byte(c.asked), false)
		require.Nil(t, fault, name)
		require.JSONEq(t, c.chat, string(chat.Text), name)
	}
}

// rejected are requests by the field that the error names.
var rejected = map[string]string{
	"max_tokens is missing": `{"messages":[{"role":"user","content":"x"}]}`,
	"max_tokens must":       `{"max_tokens":0,"messages":[{"role":"user","content":"x"}]}`,
	"messages must have":    `{"max_tokens":1}`,
	"messages must end": `{"max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant",
			"content":"x"}]}`,
	"messages.0.role":             `{"max_tokens":1,"messages":[{"role":"tool","content":"x"}]}`,
	"messages must have a":        `{"max_tokens":1,"messages":[{"role":"system","content":"x"}]}`,
	"messages.0 must be":          `{"max_tokens":1,"messages":["x"]}`,
	"messages.0.content must":     `{"max_tokens":1,"messages":[{"role":"user"}]}`,
	"messages.0.content.0.type":   `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"odd"}]}]}`,
	"messages.0.content.0.source": `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"document"}]}]}`,
	"messages.0.content.0.odd": `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text",
			"text":"","odd":1}]}]}`,
	"messages.0.content.0.source.type": `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image",
			"source":{"type":"file"}}]}]}`,
	"messages.0.content.0.source.data": `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image",
			"source":{"type":"base64","media_type":"image/png","data":"?"}}]}]}`,
	"messages.0.content.1 must come": `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text",
			"text":""},{"type":"tool_result"}]}]}`,
	"messages.0.content.0.tool_use_id is missing": `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`,
	"messages.0.content.0.input": `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use",
			"id":"1","name":"f","input":[]}]}]}`,
	"mcp_servers":              `{"max_tokens":1,"mcp_servers":[]}`,
	"top_k":                    `{"max_tokens":1,"top_k":"4"}`,
	"top_p must be there once": `{"max_tokens":1,"top_p":1,"top_p":1}`,
	"tool_choice forces": `{"max_tokens":1,"tools":[{"type":"web_search_20250305","name":"web_search"}],
			"tool_choice":{"type":"tool","name":"web_search"},"messages":[{"role":"user","content":"x"}]}`,
	"tool_choice forces a tool": `{"max_tokens":1,"tools":[{"type":"bash_20250124","name":"bash"}],
			"tool_choice":{"type":"any"},"messages":[{"role":"user","content":"x"}]}`,
	"tools.0.type":          `{"max_tokens":1,"tools":[{"type":1,"name":"f"}]}`,
	"thread cannot be used": `{"max_tokens":1,"thread":{"type":"create"},"messages":[{"role":"user","content":"x"}]}`,
	"tools.0.input_schema":  `{"max_tokens":1,"tools":[{"name":"f"}]}`,
	"tool_choice.name":      `{"max_tokens":1,"tool_choice":{"type":"tool"}}`,
	"thinking.type":         `{"max_tokens":1,"thinking":{}}`,
	"metadata.a":            `{"max_tokens":1,"metadata":{"a":1}}`,
	"metadata.user_id":      `{"max_tokens":1,"user":"a","metadata":{"user_id":"b"}}`,
	"stop_sequences.0":      `{"max_tokens":1,"stop_sequences":[1]}`,
	"chat_template_kwargs.enable_thinking": `{"max_tokens":1,"thinking":{"type":"enabled"},
			"chat_template_kwargs":{"enable_thinking":true},"messages":[{"role":"user","content":"x"}]}`,
}

func TestToChat_rejects(t *testing.T) {
	t.Parallel()

	for words, asked := range rejected {
		_, fault := toChat([]byte(asked), false)
		require.NotNil(t, fault, words)
		require.Contains(t, fault.Message, words)
	}

	_, fault := toChat([]byte("{\"user\":\"\xff\"}"), false)
	require.Contains(t, fault.Message, "UTF-8")
	_, fault = toChat([]byte(`{"max_tokens":1,"seed":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+
		`,"messages":[{"role":"user","content":"x"}]}`), false)
	require.Contains(t, fault.Message, "nested")
}
