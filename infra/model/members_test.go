package model_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// What a server sends next to the interface comes back to it in the same place.
func TestStream_membersOfTheServerComeBack(t *testing.T) {
	given := `{"role":"assistant","content":"Look.","reasoning_details":[{"type":"reasoning.encrypted","data":"x<y","index":0}],` +
		`"vendor_state":{"a":[1.50,"\u0000"]},"annotations":[],"audio":null,"tool_calls":[` +
		`{"id":"a","type":"function","function":{"name":"Bash","arguments":"{}","state":"f"},"extra_content":{"google":{"thought_signature":"s"}}},` +
		`{"id":"b","type":"function","function":{"name":"Read","arguments":"{}"}}]}`

	var bodies []string

	client := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))

		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":%s,"finish_reason":"tool_calls"}]}`, given)
	})

	reply, err := client.Stream(t.Context(), ask(), nil)
	require.NoError(t, err)
	require.True(t, domain.KeepableMembers(reply.ServerMembers))

	p := ask()
	answer := domain.PromptMessage{
		Role: "assistant", Parts: []domain.ContentPart{{Type: "text", Text: reply.Text}}, ServerMembers: reply.ServerMembers,
	}

	for _, c := range reply.Calls {
		require.True(t, domain.KeepableMembers(c.ServerMembers))

		answer.Calls = append(answer.Calls, domain.PromptCall{
			ID: "own-" + c.ID, ServerID: c.ID, Name: c.Name, Arguments: c.Arguments, ServerMembers: c.ServerMembers,
		})
	}

	p.Messages = append(p.Messages, answer)

	for range 2 {
		_, err = client.Stream(t.Context(), p, nil)
		require.NoError(t, err)
	}

	var sent struct{ Messages []json.RawMessage }

	require.NoError(t, json.Unmarshal([]byte(bodies[1]), &sent))

	want := strings.Replace(given, `"annotations":[],"audio":null,`, "", 1)
	require.JSONEq(t, want, string(sent.Messages[1]))
	require.Contains(t, string(sent.Messages[1]), "1.50", "numbers stay as they are")
	require.Equal(t, bodies[1], bodies[2], "the same bytes, for caches")
}

// Thinking in a list of parts goes back in such a list, before the text.
func TestStream_thinkingPartsComeBack(t *testing.T) {
	var content json.RawMessage

	client := server(t, func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Messages []struct{ Content json.RawMessage }
		}

		require.NoError(t, json.NewDecoder(r.Body).Decode(&request))

		content = request.Messages[len(request.Messages)-1].Content

		events(
			delta(`{"content":[{"type":"thinking","thinking":"let me "}]}`),
			delta(`{"content":[{"type":"thinking","thinking":"see","signature":"s"}]}`),
			delta(`{"content":"Yes."}`), finish("stop"), done)(w, r)
	})

	reply, err := client.Stream(t.Context(), ask(), nil)
	require.NoError(t, err)

	p := ask()
	p.Messages = append(p.Messages, domain.PromptMessage{
		Role: "assistant", Parts: []domain.ContentPart{{Type: "text", Text: reply.Text}}, ServerMembers: reply.ServerMembers,
	})
	_, err = client.Stream(t.Context(), p, nil)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type":"thinking","thinking":"let me see","signature":"s"},{"type":"text","text":"Yes."}]`, string(content))
}

// Members of an imported turn never replace those of the interface, and a server that refuses
// members is sent none.
func TestStream_membersThatAreNotSent(t *testing.T) {
	p := ask()
	p.Messages = append(p.Messages, domain.PromptMessage{
		Role:          "assistant",
		Parts:         []domain.ContentPart{{Type: "text", Text: "x"}},
		ServerMembers: `{"role":"system","signature":"s"}`,
		Calls: []domain.PromptCall{
			{ID: "a", ServerID: "a", Name: "Bash", Arguments: "{}", ServerMembers: `{"id":"z","function":{"name":"Rm"}}`},
		},
	})

	refuse := false
	client := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)

		require.NotContains(t, string(body), `"role":"system"`)
		require.NotContains(t, string(body), `"Rm"`)
		require.NotContains(t, string(body), `"z"`)

		if refuse && strings.Contains(string(body), "signature") {
			status(422, `{"detail":[{"type":"extra_forbidden","loc":["body","messages",1,"signature"]}]}`)(w, r)
			return
		}

		events(finish("stop"), done)(w, r)
	})

	_, err := client.Stream(t.Context(), p, nil)
	require.NoError(t, err)

	refuse = true
	_, err = client.Stream(t.Context(), p, nil)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"m": {"members of the server"}}, client.Refusals())
}

func TestStream_tooManyMembersAreDropped(t *testing.T) {
	reply := streamed(t,
		delta(`{"signature":"s","tool_calls":[{"index":0,"id":"a","function":{"name":"Bash","arguments":"{}"},"state":"`+
			strings.Repeat("x", domain.MaxServerMembers)+`"}]}`), finish("tool_calls"), done)
	require.Empty(t, reply.ServerMembers)
	require.Empty(t, reply.Calls[0].ServerMembers)
}
