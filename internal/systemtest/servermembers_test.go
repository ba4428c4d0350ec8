package systemtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// signedCall returns a tool call of a server that needs a signature back.
func signedCall(n int, signature string) string {
	return delta(obj{"tool_calls": []obj{{
		"index": 0, "id": fmt.Sprintf("signed-%d", n), "function": obj{"name": "Bash", "arguments": `{"command":"true"}`},
		"extra_content": obj{"google": obj{"thought_signature": signature}},
	}}})
}

// TestCompact_serverMembers holds that a server which refuses calls without their signatures
// accepts the requests before and after a compaction, and that the signatures of compacted
// turns are not sent again.
func TestCompact_serverMembers(t *testing.T) {
	t.Parallel()
	s := newStack(t)

	signature := func(n int) string { return fmt.Sprintf("<%d>%s", n, strings.Repeat("c2lnbmF0dXJl", 400)) }

	server := newAnswersServer(t, s, map[string]func(http.ResponseWriter, request){
		"signs": func(w http.ResponseWriter, r request) {
			for _, m := range r.messages {
				calls, _ := m.(map[string]any)["tool_calls"].([]any)
				for _, call := range calls {
					if !strings.Contains(jsonText(call), "thought_signature") {
						refusal(w, http.StatusBadRequest, "", "Function call is missing a thought_signature")
						return
					}
				}
			}

			switch last := r.messages[len(r.messages)-1].(map[string]any); {
			case !r.tools:
				say(w, text("A summary."), finish("stop"))
			case last["role"] == "tool":
				say(w, delta(obj{"vendor_state": "state of the server"}), text("done"), finish("stop"))
			default:
				say(w, signedCall(r.n, signature(r.n)), finish("tool_calls"))
			}
		},
	})

	session := s.onModel("signs", domain.SessionSetup{})
	for i := range 4 {
		require.Equal(t, "completed", s.talk(session, fmt.Sprintf("message %d %s", i, filler(400)))["finish_reason"])
	}

	before := server.prompts("signs")
	sent := before[len(before)-1]
	require.Equal(t, 4, strings.Count(sent, "thought_signature"))
	require.Equal(t, 3, strings.Count(sent, "state of the server"), "the members of messages, too")

	opened, _, err := s.journal.ReadSession(t.Context(), s.caller.User, session)
	require.NoError(t, err)
	size, err := s.acts.Compaction.ContextStats(t.Context(), opened)
	require.NoError(t, err)
	require.Greater(t, size.UsedTokens, int64(4*len(signature(1))/8), "the signatures count")

	_, err = s.chats.Compact(t.Context(), s.caller, session)
	require.NoError(t, err)
	s.await(session, domain.EventSessionCompacted, nil)

	kept, signatures := "", 0
	for i := range 2 {
		require.Equal(t, "completed", s.talk(session, fmt.Sprintf("after %d", i))["finish_reason"])

		prompts := server.prompts("signs")
		kept = prompts[len(prompts)-1]
		signatures = strings.Count(kept, "thought_signature")
	}

	require.NotContains(t, kept, "<1>", "the signature of a turn that was compacted")
	require.Equal(t, strings.Count(kept, `"tool_calls"`), signatures)
	require.NotZero(t, signatures)
}
