package systemtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/service/memories"
)

// A JSON answer may have white space around it that JSON does not know.
func TestHeadlessAnswer_whiteSpace(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()

	for _, space := range []string{"\u00a0", "\u3000", "\u2028", "\u0085", "\f", "\v", " \n\t"} {
		for _, answer := range []string{`{"a":1}` + space, space + `{"a":1}`} {
			ack := s.sendHeadless(session, script(obj{"steps": []obj{{"text": answer}}}), `{"type":"object"}`)
			end := s.awaitEnd(session, ack.ChatID)
			require.Equal(t, "completed", end["finish_reason"], "%q: %v", answer, end)
			require.Equal(t, map[string]any{"a": 1.0}, end["result"].(map[string]any)["output"])
			require.EqualValues(t, 1, end["steps"])
		}
	}

	s.checkEvents(session)
}

// Whatever the last answer of a headless chat is, its end can be recorded.
func TestFinishChat_answerIsNoJSON(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	call := bash("echo begun; sleep 600")
	ack := s.sendHeadless(session, script(obj{"steps": []obj{{"text": "no {JSON", "calls": []obj{call}}}}), `{"type":"object"}`)
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "tool_progress" })
	_, err := s.journal.FinishChat(t.Context(), contract.FinishChatIn{ChatID: ack.ChatID, Reason: domain.FinishCompleted}, nil)
	require.NoError(t, err)

	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "schema_mismatch", end["finish_reason"])
	require.Equal(t, "failed", end["status"])
	require.Equal(t, "no {JSON", end["result"].(map[string]any)["output"])
	s.checkEvents(session)
}

func (s *stack) sendHeadless(session domain.SessionID, message, schema string) domain.SendAck {
	s.t.Helper()
	ack, err := s.chats.Send(s.t.Context(), s.caller, domain.Send{
		SessionID:    session,
		Message:      []domain.ContentPart{{Type: "text", Text: message}},
		Headless:     true,
		OutputSchema: json.RawMessage(schema),
		Delivery:     domain.DeliverEnqueue,
		Trigger:      domain.TriggerUser,
	})
	require.NoError(s.t, err)

	return ack
}

// hostile is text that PostgreSQL takes into no text or jsonb column, as JSON
// escapes it.
const hostile = `x\u0000y \ud800 z\udc00\u0000`

func rawCall(name, arguments string) obj {
	quoted := strings.ReplaceAll(script(obj{"steps": []obj{{"text": "ok"}}}), `"`, `\"`)
	return obj{"name": name, "raw": strings.NewReplacer("HOSTILE", hostile, "SCRIPT", quoted).Replace(arguments)}
}

// TestHostileText holds that nothing a model writes, wherever it writes it, keeps
// its turn from being recorded.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	registry, err := builtin.New(tools.Deps{Workspaces: noFiles{}, Sandbox: plainShell{}, Background: s.tasks, Tasks: s.journal})
	require.NoError(t, err)
	registry.Provide(s.acts.Model.Plans.Agents)
	registry.Provide(builtin.NewMemoryTool(memories.New(s.db.DB)))
	s.useTools(registry)
	made, err := s.journal.CreateSession(t.Context(), s.caller.User.ID, domain.NewSession{MemoryEnabled: true, Setup: domain.SessionSetup{
		Permissions: []domain.PermissionRule{{Tool: "Write", Decision: domain.PermissionAsk}},
	}})
	require.NoError(t, err)

	session := made.ID

	calls := []obj{
		rawCall("No\x00pe", `{}`),
		rawCall("Bash", `{"command":"HOSTILE"}`),
		rawCall("Bash", `{"command":"true","description":"HOSTILE"}`),
		rawCall("Bash", `{"command":"true","description":"HOSTILE","run_in_background":true}`),
		rawCall("Bash", `HOSTILE`),
		rawCall("Read", `{"file_path":"HOSTILE"}`),
		rawCall("Edit", `{"file_path":"a","old_string":"HOSTILE","new_string":"HOSTILE"}`),
		rawCall("Glob", `{"pattern":"HOSTILE"}`),
		rawCall("Grep", `{"pattern":"HOSTILE"}`),
		rawCall("Bash", `{"command":"printf 'a\\0b'"}`),
		rawCall(
			"TaskCreate",
			`{"subject":"HOSTILE","description":"HOSTILE"}`,
		),
		rawCall("TaskCreate", `{"task_id":"HOSTILE","status":"completed"}`),
		rawCall("Memory", `{"action":"save","content":"HOSTILE","topic":"HOSTILE","write_reason":"HOSTILE"}`),
		rawCall("Memory", `{"action":"search","query":"HOSTILE"}`),
		rawCall(
			"Agent",
			`{"description":"HOSTILE","prompt":"HOSTILE SCRIPT"}`,
		),
		rawCall("Agent", `{"description":"d","prompt":"SCRIPT","subagent_type":"HOSTILE"}`),
		rawCall("Agent", `{"description":"d","prompt":"SCRIPT","model":"HOSTILE"}`),
		rawCall("Agent", `{"description":"HOSTILE","prompt":"HOSTILE SCRIPT","run_in_background":true}`),
	}
	ack := s.send(
		session,
		"tools"+script(obj{"steps": []obj{{"text": "a\x00b \xed\xa0\x80", "thinking": "c\x00d", "calls": calls}, {"text": "done\x00"}}}),
	)
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "completed", end["finish_reason"], end)
	require.EqualValues(t, 2, end["steps"])

	ack = s.send(session, "questions"+script(obj{"steps": []obj{{"calls": []obj{
		rawCall(
			"AskUserQuestion",
			`{"questions":[{"question":"HOSTILE","header":"\u0000","options":[{"label":"HOSTILE","description":"HOSTILE"},{"label":"b"}]}]}`,
		),
		rawCall("Write", `{"file_path":"HOSTILE","content":"HOSTILE"}`),
	}}, {"text": "thanks"}}}))
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])

	for range s.asked(session, 2) {
		live, err := s.journal.Live(t.Context(), session)
		require.NoError(t, err)
		s.answerTo(session, live.Questions[0])
	}

	s.awaitEnds(session, ack.ChatID, 2)

	planned, err := s.chats.Send(t.Context(), s.caller, domain.Send{
		SessionID: session, Message: []domain.ContentPart{{Type: "text", Text: "plan" + script(obj{"steps": []obj{{"calls": []obj{
			rawCall("SubmitPlan", `{"title":"HOSTILE","steps":[{"id":"1","title":"HOSTILE","detail":"HOSTILE"}]}`),
		}}, {"text": "planned"}}})}},
		Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser, Mode: domain.ModePlanning,
	})
	require.NoError(t, err)
	require.Equal(t, "completed", s.awaitEnd(session, planned.ChatID)["finish_reason"])

	headless := s.sendHeadless(session, script(obj{"steps": []obj{{"text": `{"a":"` + hostile + `"}`}}}), `{"type":"object"}`)
	require.Equal(t, "completed", s.awaitEnd(session, headless.ChatID)["finish_reason"])

	s.tasksEnded(session)

	for _, turn := range s.messages(session) {
		require.NotEqual(t, domain.TurnFailed, turn.Status, "%+v", turn)
	}

	for _, e := range s.events(session) {
		require.NotEqual(t, "retry", fields(e)["patch_type"], "%v", fields(e))
	}

	s.checkEvents(session)
}

// A reply may hold more tool calls than a run can be given at once.
func TestManyCallsInOneReply(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()

	var calls []obj
	for i := range 256 {
		calls = append(
			calls,
			obj{"name": "Bash", "arguments": obj{"command": "true", "description": fmt.Sprintf("%d %s", i, strings.Repeat("long ", 60))}},
		)
	}

	ack := s.send(session, script(obj{"steps": []obj{{"calls": calls}, {"text": "done"}}}))
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "completed", end["finish_reason"], end)

	status := map[domain.ToolCallStatus]int{}
	for i, call := range s.messages(session)[1].ToolCalls {
		if status[call.Status]++; call.Status == domain.CallError {
			require.Contains(t, call.Result, fmt.Sprintf("this was call %d. Make it again in your next reply", i+1))
		}
	}

	require.Equal(t, map[domain.ToolCallStatus]int{domain.CallDone: 64, domain.CallError: 192}, status)
	s.checkEvents(session)
}
