package model_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// sent is a request as a server reads it.
type sent struct {
	Messages []struct {
		Role             string `json:"role"`
		ReasoningContent string `json:"reasoning_content"`
		Reasoning        string `json:"reasoning"`
		ToolCallID       string `json:"tool_call_id"`
		ToolCalls        []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
	} `json:"messages"`
}

func receive(t *testing.T, r *http.Request) (got sent) {
	t.Helper()

	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &got))

	return got
}

// idsSent returns the ids by which a request names the calls of some answers, each
// a list of the ids that the server gave.
func idsSent(t *testing.T, answers ...[]string) (ids []string) {
	t.Helper()

	p, n := ask(), 0

	for _, given := range answers {
		message := domain.PromptMessage{Role: "assistant"}

		var results []domain.PromptMessage

		for _, id := range given {
			own := fmt.Sprintf("call_own-%d", n)
			n++

			message.Calls = append(message.Calls, domain.PromptCall{ID: own, ServerID: id, Name: "Bash", Arguments: "{}"})
			results = append(results, domain.PromptMessage{Role: "tool", ToolCallID: own})
		}

		p.Messages = append(append(p.Messages, message), results...)
	}

	var answered []string

	_, err := server(t, func(w http.ResponseWriter, r *http.Request) {
		for _, m := range receive(t, r).Messages {
			for _, call := range m.ToolCalls {
				ids = append(ids, call.ID)
			}

			if m.ToolCallID != "" {
				answered = append(answered, m.ToolCallID)
			}
		}

		events(finish("stop"), done)(w, r)
	}).Stream(t.Context(), p, nil)
	require.NoError(t, err)
	require.Equal(t, ids, answered, "results name the ids of their calls")

	return ids
}

func TestClient_Stream_sendsTheServersCallIDs(t *testing.T) {
	long := strings.Repeat("s", domain.MaxServerCallID)
	for name, c := range map[string]struct {
		given [][]string
		want  string // of all ids, joined by a blank
	}{
		"unchanged": {[][]string{
			{
				"functions.Bash:0",
				"functions.Bash:1",
			},
			{"D681PevKs"},
			{"ü/ \"1\""},
			{long},
		}, regexp.QuoteMeta("functions.Bash:0 functions.Bash:1 D681PevKs ü/ \"1\" " + long)},
		"none": {[][]string{{"", ""}, {""}}, `[0-9A-Za-z]{9} [0-9A-Za-z]{9} [0-9A-Za-z]{9}`},
		"Kimi, repeated by answer": {[][]string{
			{"functions.Bash:0"},
			{"functions.Bash:0"},
			{"functions.Bash:0"},
		}, `functions\.Bash:0 functions\.Bash:1 functions\.Bash:2`},
		"Kimi, given later": {[][]string{{"functions.Bash:0"}, {
			"functions.Bash:0",
			"functions.Bash:1",
		}}, `functions\.Bash:0 functions\.Bash:2 functions\.Bash:1`},
		"Kimi, missing":                  {[][]string{{""}, {"functions.Bash:0"}}, `functions\.Bash:1 functions\.Bash:0`},
		"Mistral, repeated in an answer": {[][]string{{"D681PevKs", "D681PevKs"}}, `D681PevKs [0-9A-Za-z]{9}`},
		"Mistral, the word null":         {[][]string{{"null"}, {"null"}}, `null [a-z]{4}`},
		"vLLM": {[][]string{{
			"chatcmpl-tool-2c1b6d0e0f1a4b7e9d5c3a8f7e6d5c4b",
			"",
		}}, `chatcmpl-tool-2c1b6d0e0f1a4b7e9d5c3a8f7e6d5c4b chatcmpl-tool-[0-9a-f]{32}`},
		"Ollama": {[][]string{{"call_zmo1t9iy", ""}}, `call_zmo1t9iy call_[0-9a-z]{8}`},
		"DeepSeek": {[][]string{{"call_00_Qm4tY1bPz8kEwLr0xVn2aSdF", ""}}, `call_00_Qm4tY1bPz8kEwLr0xVn2aSdF ` +
			`call_[0-9]{2}_[0-9A-Za-z]{24}`},
		"GLM":                  {[][]string{{"call_-8231168139794583938", ""}}, `call_-8231168139794583938 call_-[0-9]{19}`},
		"too few of the shape": {[][]string{{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", ""}}, `0 1 2 3 4 5 6 7 8 9 [0-9A-Za-z]{9}`},
		"nothing to imitate":   {[][]string{{"+++", "+++"}}, `\+\+\+ [0-9A-Za-z]{9}`},
		"too long to imitate":  {[][]string{{long, ""}}, long[:100] + `s+ [0-9A-Za-z]{9}`},
		"a replacement is not given again": {[][]string{{"functions.Bash:0"}, {""}, {"functions.Bash:1"}}, `functions\.Bash:0 ` +
			`functions\.Bash:2 functions\.Bash:1`},
	} {
		t.Run(name, func(t *testing.T) {
			got := idsSent(t, c.given...)
			require.Regexp(t, "^(?:"+c.want+")$", strings.Join(got, " "))

			seen := map[string]bool{}
			for _, id := range got {
				require.False(t, seen[id], "%s names two calls", id)
				seen[id] = true
			}

			require.Equal(t, got, idsSent(t, c.given...), "the same calls have the same ids")
		})
	}
}

// thoughtful returns a prompt with reasoning in both fields.
func thoughtful() domain.Prompt {
	p := ask()
	p.Messages = append(p.Messages,
		domain.PromptMessage{Role: "assistant", Reasoning: "hm", ReasoningField: domain.ReasoningContent},
		domain.PromptMessage{Role: "assistant", Reasoning: "so", ReasoningField: domain.Reasoning},
		domain.PromptMessage{Role: "assistant"})

	return p
}

func TestClient_Stream_sendsReasoningInTheServersField(t *testing.T) {
	_, err := server(t, func(w http.ResponseWriter, r *http.Request) {
		got := receive(t, r).Messages[1:]
		require.Equal(t, [][2]string{{"hm", ""}, {"", "so"}, {"", ""}}, [][2]string{
			{
				got[0].ReasoningContent,
				got[0].Reasoning,
			}, {got[1].ReasoningContent, got[1].Reasoning}, {got[2].ReasoningContent, got[2].Reasoning},
		})
		events(finish("stop"), done)(w, r)
	}).Stream(t.Context(), thoughtful(), nil)
	require.NoError(t, err)
}

func TestClient_Stream_remembersModelsThatTakeNoReasoning(t *testing.T) {
	for name, c := range map[string]struct {
		with, without http.HandlerFunc // the answers to requests with reasoning and without
		calls         int              // of two requests
		fault         domain.ModelFault
		message       string
	}{
		"takes it":      {events(finish("stop"), done), status(500, ""), 2, "", ""},
		"refuses it":    {status(400, `{"error":{"message":"unknown field reasoning_content"}}`), events(finish("stop"), done), 3, "", ""},
		"forbids extra": {status(422, `{"detail":[{"type":"extra_forbidden"}]}`), events(finish("stop"), done), 3, "", ""},
		"refuses both": {
			status(400, `{"error":{"message":"first"}}`), status(400, `{"error":{"message":"second"}}`), 4,
			domain.FaultRefused, "first",
		},
		"fails then": {
			status(400, `{"error":{"message":"first"}}`), status(503, `{"error":{"message":"second"}}`), 4,
			domain.FaultTransient, "second",
		},
		"too long": {
			status(400, `{"error":{"code":"context_length_exceeded"}}`), events(finish("stop"), done), 2,
			domain.FaultContextOverflow, "",
		},
		"is away": {status(503, `{}`), events(finish("stop"), done), 2, domain.FaultTransient, ""},
		"no key":  {status(401, `{}`), events(finish("stop"), done), 2, domain.FaultRefused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0

			client := server(t, func(w http.ResponseWriter, r *http.Request) {
				calls++

				for _, m := range receive(t, r).Messages {
					if m.ReasoningContent+m.Reasoning != "" {
						c.with(w, r)
						return
					}
				}

				c.without(w, r)
			})
			for range 2 {
				_, err := client.Stream(t.Context(), thoughtful(), nil)
				if c.fault == "" {
					require.NoError(t, err)
					continue
				}

				require.Contains(t, requireFault(t, err, c.fault).Message, c.message)
			}

			require.Equal(t, c.calls, calls)
		})
	}
}

// The memory of models that take no reasoning is bounded.
func TestClient_Stream_forgetsTheOldestModelThatTakesNoReasoning(t *testing.T) {
	calls := 0
	client := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls++

		if receive(t, r).Messages[1].ReasoningContent != "" {
			status(400, `{}`)(w, r)
			return
		}

		events(finish("stop"), done)(w, r)
	})
	use := func(model string) int {
		before, p := calls, thoughtful()
		p.Model = model
		_, err := client.Stream(t.Context(), p, nil)
		require.NoError(t, err)

		return calls - before
	}
	require.Equal(t, 2, use("first"))
	require.Equal(t, 1, use("first"))

	for n := range 256 {
		require.Equal(t, 2, use(fmt.Sprint("m", n)))
	}

	require.Equal(t, 1, use("m255"))
	require.Equal(t, 2, use("first"))
}
