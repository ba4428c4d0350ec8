package systemtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// setUp makes a session with its own setup.
func (s *stack) setUp(setup domain.SessionSetup) domain.SessionID {
	s.t.Helper()
	made, err := s.journal.CreateSession(s.t.Context(), s.caller.User.ID, domain.NewSession{Setup: setup})
	require.NoError(s.t, err)

	return made.ID
}

var askAboutTouch = domain.SessionSetup{Permissions: []domain.PermissionRule{
	{Tool: "Bash", Pattern: "echo never*", Decision: domain.PermissionDeny},
	{Tool: "Bash", Pattern: "echo *", Decision: domain.PermissionAsk},
}}

func TestACallWaitsForPermission(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(askAboutTouch)
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{bash("echo once"), bash("true"), bash("echo never"), bash("echo refused")}},
		{"calls": []obj{bash("echo session")}},
		{"calls": []obj{bash("echo session")}},
		{"echo": true},
	}}))
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "awaiting_answer", end["finish_reason"], end)
	live, err := s.journal.Live(t.Context(), session)
	require.NoError(t, err)
	require.Equal(t, domain.WaitingPermission, live.WaitingReason)

	calls := s.messages(session)[1].ToolCalls
	require.Len(t, calls, 6, "each of the two that are asked about has its question beside it")
	require.Equal(t, domain.CallPending, calls[0].Status)
	require.Equal(t, domain.CallAwaitingAnswer, calls[1].Status)
	require.Equal(t, "Permission", calls[1].DisplayName)
	require.Contains(t, calls[1].Arguments, `"permission_for":"`+calls[0].ID)
	require.Contains(t, calls[1].Arguments, "echo once")
	require.Equal(t, domain.CallDone, calls[2].Status, "what needs no permission is done meanwhile")
	require.Equal(t, domain.CallError, calls[3].Status)
	require.Contains(t, calls[3].Result, "denies")

	open := s.asked(session, 2)
	require.Equal(t, calls[0].ID, *open[0].Guards)
	_, state, err := s.journal.ClaimCall(t.Context(), calls[0].ID, "")
	require.NoError(t, err)
	require.Equal(t, domain.CallStopped, state, "no worker can be made to run it")
	s.permit(session, open[0], 0, "")
	s.awaitEnds(session, ack.ChatID, 2)
	require.Equal(t, domain.CallDone, s.messages(session)[1].ToolCalls[0].Status, "an allowed call does not wait for other answers")
	require.Equal(t, open[1].ID, s.asked(session, 1)[0].ID)
	s.permit(session, open[1], -1, "not this one")
	s.awaitEnds(session, ack.ChatID, 3) // parks once more
	calls = s.messages(session)[1].ToolCalls
	require.Equal(t, domain.CallDone, calls[0].Status)
	require.Contains(t, calls[0].Result, "once")
	require.Equal(t, domain.CallError, calls[4].Status)
	require.Contains(t, calls[4].Result, "The user says: not this one")

	s.permit(session, s.asked(session, 1)[0], 1, "")
	s.awaitEnds(session, ack.ChatID, 4)
	turns := s.messages(session)
	require.Len(t, turns, 5)
	require.Len(t, turns[3].ToolCalls, 1, "the session has allowed it")
	require.Contains(t, turns[3].ToolCalls[0].Result, "session")
	require.NotContains(t, turns[4].Blocks[0].Content, "AskUserQuestion\",\"arguments", "the model did not ask")
	s.checkEvents(session)
}

// permit answers a question for permission with an option, or with words.
func (s *stack) permit(session domain.SessionID, q domain.Question, option int, words string) {
	s.t.Helper()

	answer := domain.Answer{ToolCallID: q.ToolCallID}
	if option >= 0 {
		answer.Selections = map[string][]int{"0": {option}}
	} else {
		answer.Custom = map[string]string{"0": words}
	}

	ack, err := s.chats.Answer(s.t.Context(), s.caller, session, answer)
	require.NoError(s.t, err)
	require.True(s.t, ack.Resolved)
}

func TestAMessageInsteadOfPermissionRefusesTheCall(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(askAboutTouch)
	ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("echo no")}}}}))
	s.awaitEnd(session, ack.ChatID)
	next := s.send(session, script(obj{"steps": []obj{{"text": "instead"}}}))
	require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])
	call := s.messages(session)[1].ToolCalls[0]
	require.Equal(t, domain.CallCancelled, call.Status)
	require.Contains(t, call.Result, "did not say")
	s.checkEvents(session)
}

func TestAHeadlessChatIsRefusedWhatNeedsPermission(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(askAboutTouch)
	ack, err := s.chats.Send(t.Context(), s.caller, domain.Send{
		SessionID: session,
		Headless:  true,
		Delivery:  domain.DeliverEnqueue,
		Trigger:   domain.TriggerAPI,
		Message: []domain.ContentPart{
			{Type: "text", Text: script(obj{"steps": []obj{{"calls": []obj{bash("echo no")}}, {"text": "done"}}})},
		},
	})
	require.NoError(t, err)
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	call := s.messages(session)[1].ToolCalls[0]
	require.Equal(t, domain.CallError, call.Status)
	require.Contains(t, call.Result, "no user is there to answer")
}

func TestASubAgentWaitsForPermission(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(domain.SessionSetup{Permissions: []domain.PermissionRule{
		{Tool: "Bash", Decision: domain.PermissionAsk}, {Tool: "Agent", Decision: domain.PermissionAsk},
	}})
	ack := s.send(session, script(obj{"steps": []obj{
		{
			"calls": []obj{
				agent("helper", obj{"calls": []obj{bash("echo inside")}}, obj{"text": "helped"}),
				agent("unwanted", obj{"text": "never"}),
			},
		},
		{"text": "done"},
	}}))
	s.awaitEnd(session, ack.ChatID)
	open := s.asked(session, 2)
	s.permit(session, open[1], -1, "one is enough")
	s.permit(session, open[0], 0, "")
	t.Cleanup(func() {
		if t.Failed() {
			for _, e := range s.events(session) {
				t.Log(string(e.Wire()))
			}
		}
	})

	inner := s.asked(session, 1)[0]
	require.NotNil(t, inner.SourceLoop)
	require.NotNil(t, inner.Guards)
	s.awaitEnds(session, ack.ChatID, 2)
	s.permit(session, inner, 0, "")
	s.awaitEnds(session, ack.ChatID, 3)
	turns := s.messages(session)
	calls := ofLoop(turns, domain.RootLoop)[1].ToolCalls
	require.Equal(t, "helped", calls[0].Result)
	require.Contains(t, calls[2].Result, "one is enough")
	require.Contains(t, ofLoop(turns, calls[0].ID)[1].ToolCalls[0].Result, "inside")
	require.Empty(t, ofLoop(turns, calls[2].ID))
	s.checkEvents(session)
}

func TestAChatEndsWithItsBudget(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	most := int64(250)
	session := s.setUp(domain.SessionSetup{Budget: &domain.Budget{MaxTokens: &most}})
	usage := obj{"prompt_tokens": 50, "completion_tokens": 10}
	sub := agent(
		"spends",
		obj{"usage": usage, "calls": []obj{bash("true")}},
		obj{"usage": usage, "calls": []obj{bash("true")}},
		obj{"usage": usage, "text": "spent"},
	)
	ack := s.send(session, script(obj{"steps": []obj{
		{"usage": usage, "calls": []obj{sub}}, {"usage": usage, "calls": []obj{bash("echo one")}}, {"usage": usage, "text": "never said"},
	}}))
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "budget_exhausted", end["finish_reason"], end)
	require.Equal(t, "failed", end["status"])
	require.Equal(t, "budget_exhausted", end["error"].(map[string]any)["code"])
	require.Contains(t, end["error"].(map[string]any)["message"], "300 tokens of the 250")
	require.EqualValues(t, 2, end["steps"])
	spent, err := s.journal.SessionBudget(t.Context(), s.caller.User, session)
	require.NoError(t, err)
	require.EqualValues(t, 300, spent.UsedTokens, "sub-agents count")

	again := s.send(session, script(obj{"steps": []obj{{"text": "never"}}}))
	require.Equal(t, "budget_exhausted", s.awaitEnd(session, again.ChatID)["finish_reason"])
	live, err := s.journal.Live(t.Context(), session)
	require.NoError(t, err)
	require.Equal(t, domain.WaitingBudget, live.WaitingReason)

	more := int64(100_000)
	_, err = s.journal.SetSessionBudget(t.Context(), s.caller.User, session, domain.Budget{MaxTokens: &more})
	require.NoError(t, err)

	raised := s.send(session, script(obj{"steps": []obj{{"text": "on we go"}}}))
	require.Equal(t, "completed", s.awaitEnd(session, raised.ChatID)["finish_reason"])
	s.checkEvents(session)
}

// All sessions of a user share the calls of a day, whichever way they started.
func TestStack_callsOfAUsersDay(t *testing.T) {
	t.Parallel()

	s := newStack(t)
	s.callsPerDay.Store(2)

	usage := obj{"prompt_tokens": 5, "completion_tokens": 1}
	two := script(obj{"steps": []obj{{"usage": usage, "calls": []obj{bash("true")}}, {"usage": usage, "text": "done"}}})

	first, second := s.setUp(domain.SessionSetup{}), s.setUp(domain.SessionSetup{})
	require.Equal(t, "completed", s.awaitEnd(first, s.send(first, two).ChatID)["finish_reason"])

	end := s.awaitEnd(second, s.send(second, two).ChatID)
	require.Equal(t, "budget_exhausted", end["finish_reason"], end)
	require.Contains(t, end["error"].(map[string]any)["message"], "2 model calls on this day")
	require.EqualValues(t, 0, end["steps"])

	// The calls of deleted sessions were made, too; those of yesterday do not count.
	_, err := s.journal.Pool.Exec(t.Context(), `
		WITH moved AS (DELETE FROM session_usage WHERE session_id = $1 RETURNING *)
		INSERT INTO deleted_usage (owner_id, day, model, priced, calls, input_tokens, output_tokens, cache_read_tokens,
		                           cache_write_tokens, cost_nano)
		SELECT owner_id, day, model, priced, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nano
		FROM   moved`, first)
	require.NoError(t, err)
	require.Equal(t, "budget_exhausted", s.awaitEnd(second, s.send(second, two).ChatID)["finish_reason"])

	_, err = s.journal.Pool.Exec(t.Context(), `UPDATE deleted_usage SET day = day - 1`)
	require.NoError(t, err)
	require.Equal(t, "completed", s.awaitEnd(second, s.send(second, two).ChatID)["finish_reason"])
}

func TestARepeatedCallEndsTheChat(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(domain.SessionSetup{StuckAfter: 3})
	ack := s.send(session, script(obj{"loop": obj{"n": 10, "call": bash("echo the same")}}))
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "stuck_detected", end["finish_reason"], end)
	require.EqualValues(t, 4, end["steps"])

	turns := s.messages(session)
	last := turns[len(turns)-1].ToolCalls[0]
	require.Equal(t, domain.CallError, last.Status)
	require.Contains(t, last.Result, "3 times in a row")
	// Calls that differ, or whose results do, are work.
	ack = s.send(session, script(obj{"loop": obj{"n": 8, "call": bash("echo {{i}}")}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	ack = s.send(session, script(obj{"loop": obj{"n": 8, "call": bash("date +%s%N")}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.checkEvents(session)
}

func TestASessionBoundsItsSteps(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(domain.SessionSetup{MaxSteps: 2})
	ack := s.send(session, script(obj{"loop": obj{"n": 10, "call": bash("echo {{i}}")}}))
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "max_steps", end["finish_reason"], end)
	require.EqualValues(t, 2, end["steps"])
	raw, err := json.Marshal(end["error"])
	require.NoError(t, err)
	require.Contains(t, string(raw), "2 model calls")
}

func TestPermission_sessionRuleMatchesOneCall(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(domain.SessionSetup{Permissions: []domain.PermissionRule{{Tool: "Bash", Decision: domain.PermissionAsk}}})
	shown := `echo "x; touch y; z"`
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{bash(shown)}}, {"calls": []obj{bash("touch y")}}, {"calls": []obj{bash(shown)}}, {"text": "done"},
	}}))
	s.awaitEnd(session, ack.ChatID)
	s.permit(session, s.asked(session, 1)[0], 1, "")
	s.awaitEnds(session, ack.ChatID, 2)
	s.permit(session, s.asked(session, 1)[0], -1, "no")
	s.awaitEnds(session, ack.ChatID, 3)

	calls := s.messages(session)
	require.Equal(t, domain.CallError, calls[2].ToolCalls[0].Status, "a part of the quoted text was not shown as a command")
	require.Equal(t, domain.CallDone, calls[3].ToolCalls[0].Status)
	require.Len(t, calls[3].ToolCalls, 1, "the same call is not asked about again")

	var rule domain.PermissionRule

	require.NoError(t, s.db.Pool.QueryRow(t.Context(), `SELECT setup->'permissions'->0 FROM sessions WHERE id = $1`, session).Scan(&rule))
	require.Empty(t, rule.Pattern)
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", rule.Digest)
	require.Equal(t, "Bash\ncommand: "+shown, rule.Call)
}

func TestPermission_rulesAreJudgedAgain(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(domain.SessionSetup{Permissions: []domain.PermissionRule{{Tool: "Bash", Decision: domain.PermissionAsk}}})
	ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("touch y")}}, {"text": "done"}}}))
	s.awaitEnd(session, ack.ChatID)

	s.exec(`UPDATE sessions SET setup = jsonb_set(setup, '{permissions}',
		'[{"tool": "Bash", "pattern": "touch *", "decision": "deny"}]') WHERE id = $1`, session)
	s.permit(session, s.asked(session, 1)[0], 0, "")
	s.awaitEnds(session, ack.ChatID, 2)

	call := s.messages(session)[1].ToolCalls[0]
	require.Equal(t, domain.CallError, call.Status)
	require.Contains(t, call.Result, "denies")
}

func TestPermission_answerForSessionSettlesEqualCalls(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(domain.SessionSetup{Permissions: []domain.PermissionRule{{Tool: "Bash", Decision: domain.PermissionAsk}}})
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{bash("echo a >> log"), bash("echo b >> log"), bash("echo a >> log")}}, {"text": "done"},
	}}))
	s.awaitEnd(session, ack.ChatID)
	open := s.asked(session, 3)
	s.permit(session, open[0], 1, "")
	s.awaitEnds(session, ack.ChatID, 2)
	require.Equal(t, open[1].ID, s.asked(session, 1)[0].ID, "the other call is still asked about")
	s.permit(session, open[1], 0, "")
	s.awaitEnds(session, ack.ChatID, 3)

	for _, call := range s.messages(session)[1].ToolCalls {
		require.Equal(t, domain.CallDone, call.Status)
	}

	s.checkEvents(session)
}

func TestPermission_changedFileVoidsAnswer(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(
		domain.SessionSetup{Permissions: []domain.PermissionRule{{Tool: "Bash", Pattern: "sh *", Decision: domain.PermissionAsk}}},
	)
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{bash("echo 'echo shown' > run.sh; pwd")}},
		{"calls": []obj{bash("sh run.sh"), bash("echo beside")}},
		{"calls": []obj{bash("sh run.sh")}},
		{"text": "done"},
	}}))
	s.awaitEnd(session, ack.ChatID)

	root, _, _ := strings.Cut(s.messages(session)[1].ToolCalls[0].Result, "\n")
	require.NoError(t, os.WriteFile(filepath.Join(root, "run.sh"), []byte("echo changed"), 0o600))

	s.permit(session, s.asked(session, 1)[0], 0, "")
	s.awaitEnds(session, ack.ChatID, 2)
	refused := s.messages(session)[2].ToolCalls[0]
	require.Equal(t, domain.CallError, refused.Status)
	require.Contains(t, refused.Result, "run.sh")

	s.permit(session, s.asked(session, 1)[0], 0, "")
	s.awaitEnds(session, ack.ChatID, 3)
	require.Contains(t, s.messages(session)[3].ToolCalls[0].Result, "changed")
}
