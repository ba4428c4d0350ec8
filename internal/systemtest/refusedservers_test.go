package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

// serverTools provides the tools of three tool servers.
type serverTools struct{}

func (serverTools) Tools(context.Context, tools.Scope) []tools.Tool {
	var all []tools.Tool

	for _, name := range []string{"mcp__good__read", "mcp__bad__draw", "mcp__bad__paint", "mcp__worse__sing"} {
		tool, err := tools.Prepare(tools.Tool{
			Name: name, DisplayName: name, Executing: true,
			Spec: domain.ToolSpec{Name: name, Description: "A tool.", Parameters: json.RawMessage(`{"type":"object"}`)},
			Run:  func(context.Context, *tools.Call) (tools.Result, error) { return tools.Result{Output: "done"}, nil },
		})
		if err != nil {
			panic(err)
		}

		all = append(all, tool)
	}

	return all
}

// TestChat_refusedToolServers holds that a chat continues without the tool servers whose tools
// the model server refuses, says so, and that later chats are not refused first.
func TestChat_refusedToolServers(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.acts.Tools.Tools.Provide(serverTools{})

	// refuses answers requests that offer one of the tools with this error.
	refuses := func(status int, say func(tool string, index int) string, faulty ...string) func(http.ResponseWriter, request) {
		return func(w http.ResponseWriter, r request) {
			for i, tool := range r.offered {
				if slices.Contains(faulty, tool) {
					refusal(w, status, "", say(tool, i))
					return
				}
			}

			said(text("an answer"), finish("stop"))(w, r)
		}
	}
	words := func(text string) func(string, int) string { return func(string, int) string { return text } }
	name := func(tool string, _ int) string {
		return fmt.Sprintf("Invalid schema for function '%s': schema must have type 'object'.", tool)
	}
	index := func(format string) func(string, int) string {
		return func(_ string, index int) string { return fmt.Sprintf(format, index) }
	}

	const draw, sing = "mcp__bad__draw", "mcp__worse__sing"

	cases := map[string]struct {
		answer func(http.ResponseWriter, request)
		calls  int // of the first chat
		left   []string
	}{
		"grammar":         {refuses(400, words("failed to parse grammar"), draw), 2, []string{"good", "bad", "worse"}},
		"broken":          {refuses(500, words("failed to parse grammar"), draw), 2, []string{"good", "bad", "worse"}},
		"named":           {refuses(400, name, draw), 2, []string{"bad"}},
		"named, 422":      {refuses(422, name, "mcp__bad__paint"), 2, []string{"bad"}},
		"two named":       {refuses(400, name, draw, sing), 3, []string{"bad", "worse"}},
		"by place":        {refuses(400, index("tools.%d.custom.input_schema: JSON schema is invalid"), sing), 2, []string{"worse"}},
		"by declarations": {refuses(400, index("tools[0].function_declarations[%d].parameters"), sing), 2, []string{"worse"}},
		"too many tools":  {refuses(400, words("Invalid 'tools': array too long"), draw), 2, []string{"good", "bad", "worse"}},
	}

	answers := map[string]func(http.ResponseWriter, request){
		"all": func(w http.ResponseWriter, r request) { refusal(w, 400, "", name(r.offered[len(r.offered)-1], 0)) },
	}
	for name, c := range cases {
		answers[name] = c.answer
	}

	server := newAnswersServer(t, s, answers)

	for name, c := range cases {
		session := s.onModel(name, domain.SessionSetup{})
		end := s.talk(session, "go")
		require.Equal(t, "completed", end["finish_reason"], "%s: %v", name, end)
		require.Equal(t, c.calls, server.count(name), name)

		note := s.lastAnswer(session).Blocks[0]
		require.Equal(t, domain.BlockSystemNote, note.Type, name)

		require.Equal(t, "completed", s.talk(session, "and now")["finish_reason"], name)
		require.Equal(t, c.calls+1, server.count(name), "%s: the next chat is not refused first", name)

		offered := server.requests[name][c.calls].offered
		for _, tool := range []string{"good", "bad", "worse"} {
			left := slices.Contains(c.left, tool)
			shown := slices.ContainsFunc(offered, func(o string) bool { return strings.HasPrefix(o, "mcp__"+tool+"__") })
			require.NotEqual(t, left, shown, "%s: %s", name, tool)
		}

		for _, left := range c.left {
			require.Contains(t, note.Content, left, name)
		}
	}

	session := s.onModel("all", domain.SessionSetup{})
	end := s.talk(session, "go")
	require.Equal(t, "model_refused", end["error"].(map[string]any)["code"])
	require.LessOrEqual(t, server.count("all"), 4)
}

// notedTools are serverTools that report a tool which is withheld.
type notedTools struct{ serverTools }

func (notedTools) Notes(tools.Scope) []string {
	return []string{"Tools of the tool server good are withheld: write."}
}

// TestChat_notesWithheldTools holds that a conversation says once which tools of tool servers
// it is not offered, unattended chats included.
func TestChat_notesWithheldTools(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.acts.Tools.Tools.Provide(notedTools{})

	session := s.session()

	for range 2 {
		ack := s.sendHeadless(session, script(obj{"steps": []obj{{"text": "done"}}}), "")
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	}

	var notes []string

	for _, turn := range s.messages(session) {
		for _, block := range turn.Blocks {
			if block.Type == domain.BlockSystemNote {
				notes = append(notes, block.Content)
			}
		}
	}

	require.Equal(t, notedTools{}.Notes(tools.Scope{}), notes)
}
