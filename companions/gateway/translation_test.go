package gateway

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/gateway/dialect"
)

func FuzzToChat(f *testing.F) {
	f.Add([]byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"<é>"}]}`))
	f.Add([]byte(`{"model":"m","max_tokens":9,"stream":true,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[
		{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"k":1.0}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"},{"type":"text","text":"go on"}]}]}`))
	f.Add([]byte(`{"max_tokens":0,"model":"m","messages":[{"role":"user","content":"x"}]}`))

	f.Fuzz(func(t *testing.T, text []byte) {
		b := body{text: text}
		if b.parseJSON() != nil {
			return
		}

		chat, fault := dialect.Messages("id").Request(text)
		if fault != nil {
			require.LessOrEqual(t, len(fault.Message), 500)

			return
		}

		again := body{text: chat.Text}
		require.Nil(t, again.parseJSON())
		require.Equal(t, b.model, again.model)
		require.Equal(t, b.stream, again.stream)
	})
}

func FuzzStreams(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"reasoning\":\"b\"}}]}\n: x\ndata: [DONE]"))
	f.Add([]byte(`data: {"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"f","arguments":"{"}},{}]}}]}` +
		"\ndata: [DONE]"))
	f.Add([]byte("data: {\"error\":{\"code\":[1]}}"))
	f.Add([]byte(`data: {"choices":[{"message":{"content":[{"text":"a"}],"refusal":"r"},"finish_reason":1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, to := range []dialect.Dialect{dialect.Messages("id"), dialect.Responses("id", time.Unix(0, 0))} {
			var out strings.Builder

			c := &translator{to: to, stream: to.Stream((&call{}).answered(), &out)}
			for line := range strings.SplitSeq(string(text), "\n") {
				c.line([]byte(line))
			}

			c.stream.Finish()
			require.NoError(t, c.stream.Failed())

			for part := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n\n") {
				_, data, is := strings.Cut(part, "\ndata: ")
				require.True(t, out.Len() == 0 || part == ": keep-alive" || is && json.Valid([]byte(data)), part)
			}

			_, fault := to.Whole((&call{}).answered(), text)
			_, _ = io.WriteString(&out, fault)
		}
	})
}
