package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSummarize(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct{ tool, arguments, want string }{
		"description before command":  {"Bash", `{"command":"ls -l","description":"List the files"}`, "List the files"},
		"command":                     {"Bash", `{"command":"ls -l","timeout":5}`, "ls -l"},
		"blank description":           {"Bash", `{"description":" ","command":"ls"}`, "ls"},
		"subject before description":  {"TaskCreate", `{"description":"d","subject":"Add it"}`, "Add it"},
		"task before description":     {"TaskCreate", `{"description":"d","task_id":"t1"}`, "t1"},
		"address before prompt":       {"WebFetch", `{"prompt":"p","url":"https://a.example"}`, "https://a.example"},
		"action before query":         {"Memory", `{"query":"q","action":"search"}`, "search"},
		"a tool that is not known":    {"New", `{"limit":3,"pattern":"**/*.go"}`, "**/*.go"},
		"no main argument":            {"New", `{"limit":3}`, `{"limit":3}`},
		"no arguments":                {"New", `{}`, ""},
		"not JSON":                    {"New", ` {"limit" `, `{"limit"`},
		"a tool of a server":          {"mcp__a__find", `{"query":"q","limit":3}`, `{"query":"q","limit":3}`},
		"a tool of a server, no more": {"mcp__a__find", `{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, summarize(&toolCall{Tool: tc.tool, Arguments: tc.arguments}))
		})
	}
}
