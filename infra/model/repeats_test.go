package model_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// message returns a data line with the whole message of the first choice.
func message(body, finish string) string {
	return `data: {"model":"m-1","choices":[{"index":0,"message":` + body + `,"finish_reason":"` + finish + `"}]}`
}

func content(texts ...string) []string {
	var lines []string
	for _, text := range texts {
		lines = append(lines, delta(fmt.Sprintf(`{"content":%q}`, text)))
	}

	return lines
}

func join(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}

	return all
}

// streamed returns the reply and checks that the pieces that were reported are its text.
func streamed(t *testing.T, lines ...string) domain.Reply {
	t.Helper()

	said := map[domain.DeltaKind]string{}

	reply, err := server(t, events(lines...)).Stream(t.Context(), ask(), func(d domain.Delta) error {
		said[d.Kind] += d.Text
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, reply.Text, said[domain.DeltaText])
	require.Equal(t, reply.Thinking, said[domain.DeltaThinking])

	return reply
}

func TestStream_textSentTwiceIsTakenOnce(t *testing.T) {
	long := "The answer is in the file, on the second line."
	end := []string{finish("stop"), usage, done}

	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"whole message after the deltas": {
			join(content("Hel", "lo"), []string{message(`{"role":"assistant","content":"Hello"}`, "stop"), done}), "Hello",
		},
		"whole message after one delta": {join(content("No"), []string{message(`{"content":"No"}`, "stop"), done}), "No"},
		"whole message and an empty delta": {
			join(content("Hel", "lo"), []string{`data: {"choices":[{"delta":{},"message":{"content":"Hello"},"finish_reason":"stop"}]}`, done}),
			"Hello",
		},
		"whole message with more than the deltas": {join(content("Hel"), []string{message(`{"content":"Hello"}`, "stop"), done}), "Hello"},
		"whole message that is trimmed": {
			join(content("\n\n", "Hello"), []string{message(`{"content":"Hello"}`, "stop"), done}),
			"\n\nHello",
		},
		"message in each chunk": {
			join([]string{message(`{"content":"Hel"}`, "")}, []string{message(`{"content":"lo"}`, "stop"), done}),
			"Hello",
		},
		"message in each chunk, the text so far": {
			[]string{message(`{"content":"Hel"}`, ""), message(`{"content":"Hello"}`, "stop"), done},
			"Hello",
		},
		"last delta with the whole text":          {join(content("Hel", "lo", "Hello"), end), "Hello"},
		"last delta with the whole text and more": {join(content("Hel", "lo", "Hello!"), end), "Hello!"},
		"one long delta twice":                    {join(content(long, long), end), long},
		"text so far":                             {join(content("Hel", "Hello", "Hello wor", "Hello world"), end), "Hello world"},
		"text so far, two deltas":                 {join(content("Hel", "Hello"), end), "Hello"},
		"text so far, with a repeated delta": {
			join(content("Hel", "Hel", "Hello", "Hello", "Hello world", "Hello world"), end),
			"Hello world",
		},
		"text so far, after a blank": {join(content(" ", " Hel", " Hello"), end), " Hello"},
		"text so far, numbers":       {join(content("4", "42", "42."), end), "42."},
		"text so far, from the middle": {
			join(content("The answer", " is in the file, on", long, long+" Really."), end),
			long + " Really.",
		},
		"repetition that the model wrote":          {join(content("ha", "ha", "ha", " no"), end), "hahaha no"},
		"numbers that the model wrote":             {join(content("1", "10", " is ten"), end), "110 is ten"},
		"start that the model wrote again":         {join(content("a", "and", " b"), end), "aand b"},
		"line of dashes that the model wrote":      {join(content("-", "--", "---", "\n"), end), "------\n"},
		"beginning of a line that comes again":     {join(content("Hello\n", "Hello\n", "World"), end), "Hello\nHello\nWorld"},
		"doubled word at the end that is no whole": {join(content("bye", " bye"), end), "bye bye"},
	} {
		t.Run(name, func(t *testing.T) {
			reply := streamed(t, c.lines...)
			require.Equal(t, c.want, reply.Text)

			// The same in the thinking.
			var lines []string
			for _, line := range c.lines {
				lines = append(lines, strings.ReplaceAll(line, `"content":`, `"reasoning_content":`))
			}

			require.Equal(t, c.want, streamed(t, lines...).Thinking)
		})
	}
}

func TestStream_callSentTwiceRunsOnce(t *testing.T) {
	whole := `{"index":0,"id":"a","type":"function","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}`
	calls := func(list ...string) []string {
		var lines []string
		for _, one := range list {
			lines = append(lines, delta(`{"tool_calls":[`+one+`]}`))
		}

		return lines
	}
	end := []string{finish("tool_calls"), done}
	pieces := calls(
		`{"index":0,"id":"a","type":"function","function":{"name":"Bash","arguments":""}}`,
		`{"index":0,"function":{"arguments":"{\"command\": "}}`,
		`{"index":0,"function":{"arguments":"\"ls\"}"}}`,
	)

	for name, lines := range map[string][]string{
		"whole call twice": join(calls(whole, whole), end),
		"whole call with other blanks": join(
			calls(whole, `{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"command\":\"ls\"}"}}`), end,
		),
		"after its pieces": join(pieces, calls(whole), end),
		"its pieces twice": join(pieces, pieces, end),
		"under another index": join(
			pieces, calls(`{"index":1,"id":"a","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}`), end,
		),
		"without an index":     join(pieces, calls(`{"id":"a","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}`), end),
		"in the whole message": join(pieces, []string{message(`{"content":"","tool_calls":[`+whole+`]}`, "tool_calls"), done}),
		"in the whole message with another id": join(
			pieces, []string{message(`{"tool_calls":[{"id":"z","function":{"name":"Bash","arguments":{"command":"ls"}}}]}`, "tool_calls"), done},
		),
		"only in the whole message": {delta(`{"role":"assistant","content":""}`), message(`{"tool_calls":[`+whole+`]}`, "tool_calls"), done},
		"arguments so far": join(calls(
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"comm"}}`,
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"command\": \"l"}}`,
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"command\": \"ls\""}}`,
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}`,
		), end),
		"empty arguments first": join(calls(
			`{"index":0,"id":"a","function":{"name":"Bash","arguments":"{}"}}`,
			`{"index":0,"function":{"arguments":"{\"command\": "}}`,
			`{"index":0,"function":{"arguments":"\"ls\"}"}}`,
		), end),
		"name after the arguments": join(calls(
			`{"index":0,"function":{"arguments":"{\"command\": \"ls\"}"}}`, `{"index":0,"id":"a","function":{"name":"Bash"}}`,
		), end),
		"index after the first piece": join(calls(
			`{"id":"a","function":{"name":"Bash","arguments":"{\"command\": "}}`, `{"index":0,"function":{"arguments":"\"ls\"}"}}`,
		), end),
		"index as a string, id as a number of other pieces": join(calls(
			`{"index":"0","id":"a","function":{"name":"Bash","arguments":null}}`,
			`{"index":0.0,"id":null,"function":{"name":null,"arguments":"{\"command\": \"ls\"}"}}`,
		), end),
		"empty calls beside it": join(calls(`{}`, `null`, whole, `{"index":1}`), end),
	} {
		t.Run(name, func(t *testing.T) {
			got := streamed(t, lines...).Calls
			require.Len(t, got, 1)
			require.Equal(t, "a", got[0].ID)
			require.Equal(t, "Bash", got[0].Name)
			require.JSONEq(t, listFiles, got[0].Arguments)
		})
	}
}

func TestStream_callsThatAreDifferentStay(t *testing.T) {
	read := func(id, path string) string {
		return `{"index":0,"id":"` + id + `","function":{"name":"Read","arguments":"{\"file_path\": \"` + path + `\"}"}}`
	}

	for name, list := range map[string][]string{
		"other arguments under one id": {read("a", "x"), read("a", "y")},
		"other id":                     {read("a", "x"), read("b", "x")},
		"no ids, in one chunk":         {`{"function":{"name":"Read","arguments":"{}"}},{"function":{"name":"Read","arguments":"{}"}}`},
		"pieces of two under one index": {
			read("", "x"), `{"index":0,"function":{"name":"Bash","arguments":""}}`, `{"index":0,"function":{"arguments":"{}"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, one := range list {
				lines = append(lines, delta(`{"tool_calls":[`+one+`]}`))
			}

			require.Len(t, streamed(t, append(lines, finish("tool_calls"), done)...).Calls, 2)
		})
	}

	out := streamed(t,
		delta(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"Read","arguments":"{\"file_path\": \"x\"}"}}]}`),
		delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]}`),
		finish("tool_calls"), done)
	require.Equal(t, []domain.RequestedCall{bashCall("a"), readCall("b")}, out.Calls, "in the order of their indexes")
}

// The loop answers such a call with an error, so that the model learns of it.
func TestStream_callWithoutName(t *testing.T) {
	for name, lines := range map[string][]string{
		"with arguments": {delta(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{\"command\": \"ls\"}"}}]}`)},
		"null":           {delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":null,"arguments":{"command": "ls"}}}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			reply := streamed(t, append(lines, finish("tool_calls"), done)...)
			require.Equal(t, []domain.RequestedCall{{ID: "a", Arguments: listFiles}}, reply.Calls)
			require.Equal(t, "tool_calls", reply.FinishReason)
		})
	}

	reply := streamed(t,
		delta(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}`),
		delta(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]}`),
		finish("tool_calls"), done)
	require.Equal(t, []domain.RequestedCall{{ID: "a", Arguments: "{}"}, bashCall("b")}, reply.Calls)
}

func TestStream_splitCharacters(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"surrogates": {[]string{delta(`{"content":"a\ud83d"}`), delta(`{"content":"\ude00b"}`)}, "a😀b"},
		"surrogates around others": {
			[]string{delta(`{"content":"\ud83d"}`), delta(`{"content":""}`), delta(`{"role":"assistant"}`), delta(`{"content":"\ude00"}`)},
			"😀",
		},
		"in one chunk": {[]string{delta(`{"content":"\ud83d\ude00"}`)}, "😀"},
		"bytes": {
			[]string{delta("{\"content\":\"a\xf0\x9f\"}"), delta("{\"content\":\"\x98\"}"), delta("{\"content\":\"\x80b\"}")},
			"a😀b",
		},
		"lone high half":       {[]string{delta(`{"content":"a\ud83d"}`), delta(`{"content":"b"}`)}, "a\uFFFDb"},
		"lone low half":        {[]string{delta(`{"content":"a\ude00b"}`)}, "a\uFFFDb"},
		"high half at the end": {[]string{delta(`{"content":"a\ud83d"}`)}, "a\uFFFD"},
		"two high halves": {
			[]string{delta(`{"content":"\ud83d"}`), delta(`{"content":"\ud83d"}`), delta(`{"content":"\ude00"}`)},
			"\uFFFD😀",
		},
		"cut bytes": {[]string{delta("{\"content\":\"a\xf0\x9f\"}"), delta(`{"content":"b"}`)}, "a\uFFFDb"},
		"text so far, cut in pairs": {
			[]string{delta(`{"content":"so \ud83d"}`), delta(`{"content":"so \ud83d\ude00"}`), delta(`{"content":"so \ud83d\ude00 is"}`)},
			"so 😀 is",
		},
		"escapes": {[]string{delta(`{"content":"\"\\\/\b\f\n\r\t\u00e9\u0041"}`)}, "\"\\/\b\f\n\r\téA"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, streamed(t, append(c.lines, finish("stop"), done)...).Text)
		})
	}

	reply := streamed(t,
		delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"Write","arguments":"{\"content\":\"\ud83d"}}]}`),
		delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]}`),
		finish("tool_calls"), done)
	require.Equal(t, `{"content":"😀"}`, reply.Calls[0].Arguments)
}

func TestStream_contentAsList(t *testing.T) {
	whole := `[{"type":"thinking","thinking":[{"type":"text","text":"let me "},{"type":"text","text":"see"}],"closed":true},` +
		`{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]`

	for name, handler := range map[string]http.HandlerFunc{
		"Mistral": events(
			delta(`{"role":"assistant","content":""}`),
			delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"let me "}]}]}`),
			delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"see"}],"closed":true}]}`),
			delta(`{"content":"Hel"}`), delta(`{"content":[{"type":"text","text":"lo"}]}`), finish("stop"), done),
		"thinking as text": events(delta(`{"content":[{"type":"thinking","thinking":"let me see","signature":"s"}]}`),
			delta(`{"content":{"type":"text","text":"Hello"}}`), finish("stop"), done),
		"in one delta": events(delta(`{"content":`+whole+`}`), finish("stop"), done),
		"a server that does not stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":`+whole+`},"finish_reason":"stop"}]}`)
		},
		"parts of no known type": events(delta(`{"content":["Hel",{"type":"output_text","text":"lo"},{"type":"reference","ids":[1]},null]}`),
			delta(`{"reasoning":["let me ",{"text":"see"}]}`), finish("stop"), done),
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := call(t, server(t, handler))
			require.NoError(t, err)
			require.Equal(t, "Hello", reply.Text)
			require.Equal(t, "let me see", reply.Thinking)
		})
	}
}

func TestStream_usage(t *testing.T) {
	report := func(usage string) string { return `data: {"choices":[],"usage":` + usage + `}` }
	full := report(`{"prompt_tokens":11,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}`)
	want := domain.Usage{InputTokens: 11, OutputTokens: 7, CacheReadTokens: 4}

	for name, reports := range map[string][]string{
		"details alone":     {full, report(`{"completion_tokens_details":{"reasoning_tokens":3}}`)},
		"zeros":             {full, report(`{"prompt_tokens":0,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}`)},
		"null":              {full, report(`null`), report(`{"prompt_tokens":null,"completion_tokens":null}`)},
		"negative":          {full, report(`{"prompt_tokens":-1,"completion_tokens":-7}`)},
		"empty":             {full, report(`{}`), report(`[]`), report(`"none"`)},
		"floats":            {report(`{"prompt_tokens":11.0,"completion_tokens":7.0e0,"cached_tokens":4.0}`)},
		"strings":           {report(`{"prompt_tokens":"11","completion_tokens":" 7 ","prompt_tokens_details":{"cached_tokens":"4"}}`)},
		"in two reports":    {report(`{"prompt_tokens":11,"cached_tokens":4}`), report(`{"completion_tokens":7}`)},
		"with each chunk":   {report(`{"prompt_tokens":11,"completion_tokens":1}`), full},
		"too large, absurd": {full, report(`{"prompt_tokens":1e300,"completion_tokens":"many","prompt_tokens_details":"none"}`)},
		"other names":       {report(`{"input_tokens":11,"output_tokens":7,"cache_read_input_tokens":4}`)},
	} {
		t.Run(name, func(t *testing.T) {
			lines := append([]string{delta(`{"content":"a"}`), finish("stop")}, reports...)
			require.Equal(t, want, streamed(t, append(lines, done)...).Usage)
		})
	}
}

func TestStream_oddMembers(t *testing.T) {
	for name, lines := range map[string][]string{
		"members of other types": {
			`data: {"id":7,"model":null,"created":"now","choices":[{"index":"0","delta":{"role":null,"content":"a","refusal":false},"finish_reason":false,"logprobs":3}],"usage":false}`,
		},
		"no choices":          {`data: {"choices":null}`, `data: {}`, `data: {"choices":{}}`, delta(`{"content":"a"}`)},
		"data over two lines": {"data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\"}}]}"},
		"null choice and delta": {
			`data: {"choices":[null,{"delta":null,"message":null},{"delta":{"content":"a"}}]}`, delta(`{"content":"a"}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "a", streamed(t, append(lines, finish("stop"), done)...).Text)
		})
	}
}
