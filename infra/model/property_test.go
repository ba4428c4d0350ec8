package model_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"everloop/domain"
	"everloop/infra/model"
)

// pieces is a transport that answers with an event stream in pieces of any size.
type pieces struct {
	body string
	cut  func(left int) int // bytes of the next read
}

func (p pieces) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(&pieceReader{p.body, p.cut}),
	}, nil
}

type pieceReader struct {
	left string
	cut  func(left int) int
}

func (r *pieceReader) Read(to []byte) (int, error) {
	if r.left == "" {
		return 0, io.EOF
	}

	n := copy(to, r.left[:min(max(r.cut(len(r.left)), 1), len(r.left))])
	r.left = r.left[n:]

	return n, nil
}

func chunkOf(choice string) string {
	return `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choice + `]}`
}

// variations are what servers do to the chunks of an answer and to the lines of its stream,
// without another meaning.
var variations = map[string]func(lines []string, whole string) []string{
	"as recorded": func(lines []string, _ string) []string { return lines },
	"whole message after the chunks": func(lines []string, whole string) []string {
		return append(lines, chunkOf(whole))
	},
	"whole message as the last delta": func(lines []string, whole string) []string {
		message := gjson.Get(whole, "message")
		if text := message.Get("content").String(); len(text) < 3 && len(message.Get("tool_calls").Array()) == 0 {
			return lines // too short to be distinguished from a text that repeats itself
		}

		calls := message.Get("tool_calls").Raw
		if calls == "" || strings.Contains(calls, `"id":""`) || !strings.Contains(calls, `"id"`) {
			return lines // nothing names the calls
		}

		return append(lines, chunkOf(`{"index":0,"delta":{"tool_calls":`+calls+`}}`))
	},
	"each last chunk twice": func(lines []string, _ string) []string { return append(lines, lines[len(lines)-1]) },
	"usage details alone": func(lines []string, _ string) []string {
		return append(lines, usage, `data: {"choices":[],"usage":{"completion_tokens_details":{"reasoning_tokens":0}}}`)
	},
	"comments and blank lines": func(lines []string, _ string) []string {
		var out []string
		for _, line := range lines {
			out = append(out, ": working", "data:", line, "event: ping\ndata: {\"type\":\"ping\"}", "")
		}

		return out
	},
	"empty deltas": func(lines []string, _ string) []string {
		var out []string
		for _, line := range lines {
			out = append(out, line, chunkOf(`{"index":0,"delta":{"content":"","tool_calls":null}}`), chunkOf(``))
		}

		return out
	},
	"no blanks after the colon": func(lines []string, _ string) []string {
		var out []string
		for _, line := range lines {
			out = append(out, strings.Replace(line, "data: ", "data:", 1))
		}

		return out
	},
}

// Any cut of a stream into reads, with the known repetitions and omissions, is the same turn.
// A stream that breaks off is the same turn or one fault that is worth another try.
func TestStream_anyCutOfAnyStreamIsOneTurn(t *testing.T) {
	t.Parallel()

	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))

	t.Logf("seed %d", seed)

	for name, a := range answers {
		want := domain.Reply{
			Text: a.text, Thinking: a.thinking, ReasoningField: a.field, Calls: a.calls, FinishReason: "stop", Model: "m",
			ServerMembers: a.members, Usage: domain.Usage{InputTokens: 11, OutputTokens: 7},
		}
		if len(a.calls) > 0 {
			want.FinishReason = "tool_calls"
		}

		for variation, vary := range variations {
			lines := make([]string, 0, len(a.chunks))
			for _, choice := range a.chunks {
				lines = append(lines, chunkOf(choice))
			}

			lines = append(vary(lines, gjson.Get(a.whole, "@ugly").Raw), usage, done)

			for _, end := range []string{"\n\n", "\r\n\r\n"} {
				body := strings.ReplaceAll(strings.Join(lines, "\n\n")+"\n\n", "\n\n", end)

				for _, cut := range []func(int) int{
					func(left int) int { return left }, func(int) int { return 1 }, func(int) int { return 1 + random.IntN(40) },
				} {
					at := fmt.Sprintf("%s, %s, %q", name, variation, end)
					client := model.New(model.Config{BaseURL: "http://model.test", Transport: pieces{body, cut}})

					reply, err := client.Stream(t.Context(), ask(), nil)
					require.NoError(t, err, at)
					require.Equal(t, want, reply, at)
				}

				broken := body[:random.IntN(len(body))]
				client := model.New(
					model.Config{BaseURL: "http://model.test", Transport: pieces{broken, func(left int) int { return left }}},
				)

				reply, err := client.Stream(t.Context(), ask(), nil)
				if fault, is := errors.AsType[*domain.ModelError](err); is {
					require.Equal(t, domain.FaultTransient, fault.Fault, "%s: %s", name, broken)
					continue
				}

				require.NoError(t, err)
				require.Equal(t, want.Text, reply.Text, "%s, %s: %s", name, variation, broken)
				require.Equal(t, want.Calls, reply.Calls, "%s, %s: %s", name, variation, broken)
			}
		}
	}
}
