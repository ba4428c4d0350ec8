package systemtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// agent returns a call that starts a sub-agent whose answers follow a script.
func agent(description string, steps ...obj) obj {
	return agentOf(description, obj{}, steps...)
}

func agentOf(description string, more obj, steps ...obj) obj {
	arguments := obj{"description": description, "prompt": script(obj{"steps": steps, "note": description})}
	for name, value := range more {
		arguments[name] = value
	}

	return obj{"name": "Agent", "arguments": arguments}
}

// ofLoop gives the turns of a loop.
func ofLoop(turns []domain.Turn, loop string) []domain.Turn {
	return slices.DeleteFunc(slices.Clone(turns), func(t domain.Turn) bool { return t.LoopID != loop })
}

func TestASubAgentWorksOnItsOwn(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"text": "I hand it over.", "calls": []obj{agent("look", obj{"calls": []obj{bash("echo inside")}}, obj{"text": "it is blue"})}},
		{"text": "thanks"},
	}}))
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "completed", end["status"], end)
	require.EqualValues(t, 2, end["steps"], "the steps of sub-agents are their own")

	turns := s.messages(session)
	for i, turn := range turns {
		require.EqualValues(t, i, turn.Sequence)
	}

	root := ofLoop(turns, domain.RootLoop)
	require.Len(t, root, 3)
	call := root[1].ToolCalls[0]
	require.Equal(t, domain.CallDone, call.Status)
	require.Equal(t, "it is blue", call.Result)
	require.Positive(t, call.DurationMS)
	fork := ofLoop(turns, call.ID)
	require.Len(t, fork, 3)
	require.Equal(t, domain.RoleUser, fork[0].Role)

	for _, turn := range fork {
		require.Equal(t, call.ID, *turn.ParentForkToolCallID)
		require.Equal(t, ack.ChatID, turn.ChatID)
	}

	require.Equal(t, domain.CallDone, fork[1].ToolCalls[0].Status)
	require.Contains(t, fork[1].ToolCalls[0].Result, "inside")

	var used domain.Usage
	for _, turn := range turns {
		used = used.Add(turn.Usage)
	}

	usage := end["usage"].(map[string]any)
	require.EqualValues(t, used.InputTokens, usage["input_tokens"])
	require.EqualValues(t, used.OutputTokens, usage["output_tokens"])

	for _, e := range s.events(session) {
		if d := fields(e); e.Name == domain.EventTurnStart && d["loop_id"] != "root" {
			require.Equal(t, call.ID, d["parent_fork_tool_call_id"])
		}
	}

	s.checkEvents(session)
}

func TestSubAgentsRunAtTheSameTimeAndNest(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	inner := agent("inner", obj{"text": "deep down"})

	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			agent("one", obj{"text": "first part", "hold": true}),
			agent("two", obj{"text": "second part", "hold": true}),
			agent("three", obj{"calls": []obj{inner}}, obj{"text": "third"}),
			bash("echo beside"),
		}},
		{"text": "all there"},
	}}))
	for _, begins := range []string{"first ", "second "} { // each before the other ends
		s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["text_delta"] == begins })
	}

	s.releaseUntil(func() bool { return s.anyChatEnded(session) })
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	turns := s.messages(session)
	calls := ofLoop(turns, domain.RootLoop)[1].ToolCalls
	require.Equal(t, []string{"first part", "second part", "third"}, []string{calls[0].Result, calls[1].Result, calls[2].Result})
	nested := ofLoop(turns, calls[2].ID)[1].ToolCalls[0]
	require.Equal(t, "deep down", nested.Result)
	require.Len(t, ofLoop(turns, nested.ID), 2)
	s.checkEvents(session)
}

func TestSubAgentsOfAnUnknownTypeOrTooDeepAreRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()

	deep := obj{"text": "bottom"}
	for depth := range 4 {
		deep = obj{"calls": []obj{agent(fmt.Sprintf("level %d", 4-depth), deep, obj{"text": "up"})}}
	}

	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			agentOf("odd", obj{"subagent_type": "poet"}, obj{"text": "never"}),
			agentOf("other model", obj{"model": "no-such-model"}, obj{"text": "never"}),
			agentOf("no description", obj{"description": "  "}, obj{"text": "never"}),
			deep["calls"].([]obj)[0],
		}},
		{"text": "done"},
	}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	turns := s.messages(session)

	calls := ofLoop(turns, domain.RootLoop)[1].ToolCalls
	for i, words := range []string{"general-purpose, explorer", "The models are: ", "description is empty"} {
		require.Equal(t, domain.CallError, calls[i].Status)
		require.Contains(t, calls[i].Result, words)
	}

	require.Equal(t, domain.CallDone, calls[3].Status)

	at := calls[3]
	for range 2 {
		at = ofLoop(turns, at.ID)[1].ToolCalls[0]
		require.Equal(t, domain.CallDone, at.Status)
	}

	at = ofLoop(turns, at.ID)[1].ToolCalls[0]
	require.Equal(t, domain.CallError, at.Status)
	require.Contains(t, at.Result, "3 deep")
}

func TestOnlySoManySubAgentsWorkAtOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()

	var calls []obj
	for i := range 12 {
		calls = append(calls, agent(fmt.Sprintf("worker %d", i), obj{"text": fmt.Sprintf("part %d", i), "hold": true}))
	}

	ack := s.send(session, script(obj{"steps": []obj{{"calls": calls}, {"text": "done"}}}))
	working := func() (n int) {
		for _, e := range s.events(session) {
			if fields(e)["text_delta"] == "part " {
				n++
			}
		}

		return n
	}

	require.Eventually(t, func() bool { return working() == 10 }, patience, 10*time.Millisecond, "ten do not work at once")
	require.Eventually(t, func() bool {
		live, err := s.journal.Live(t.Context(), session)
		return err == nil && live.WaitingReason == "slot"
	}, patience, 5*time.Millisecond, "nothing showed that some had to wait")
	s.releaseUntil(func() bool { return s.anyChatEnded(session) })
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	turns := s.messages(session)
	open, most := 0, 0

	for _, e := range s.events(session) {
		d := fields(e)
		if d["turn_id"] == nil || !slices.ContainsFunc(turns, func(t domain.Turn) bool {
			return string(t.TurnID) == d["turn_id"] && t.LoopID != domain.RootLoop && t.Role == domain.RoleAssistant
		}) {
			continue
		}

		switch e.Name {
		case domain.EventTurnStart:
			open++
			most = max(most, open)
		case domain.EventTurnEnd:
			open--
		}
	}

	require.Equal(t, 10, most)

	for i, call := range ofLoop(turns, domain.RootLoop)[1].ToolCalls {
		require.Equal(t, fmt.Sprintf("part %d", i), call.Result)
	}

	for i, turn := range turns {
		require.EqualValues(t, i, turn.Sequence)
	}

	s.checkEvents(session)
}

func TestAModelFailureEndsOnlyTheSubAgent(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			agent("broken", obj{"text": "I found a key.", "calls": []obj{bash("true")}}, obj{"status": 400, "error_message": "no"}),
			agent("whole", obj{"text": "fine"}),
		}},
		{"text": "done"},
	}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	calls := ofLoop(s.messages(session), domain.RootLoop)[1].ToolCalls
	require.Equal(t, domain.CallError, calls[0].Status)
	require.Contains(t, calls[0].Result, "did not complete")
	require.Contains(t, calls[0].Result, "I found a key.")
	require.Equal(t, domain.CallDone, calls[1].Status)
	s.checkEvents(session)
}

func TestASubAgentEndsWithItsLimits(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	// one gives the turns of a chat with one sub-agent, and the call that started it.
	one := func(sub obj) ([]domain.Turn, domain.ToolCall) {
		session := s.session()
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{sub}}, {"text": "done"}}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
		s.checkEvents(session)
		turns := s.messages(session)

		return turns, ofLoop(turns, domain.RootLoop)[1].ToolCalls[0]
	}
	s.acts.Model.Plans.ForkLimits.Steps = 2
	_, busy := one(
		agent(
			"busy",
			obj{"text": "one", "calls": []obj{bash("true")}},
			obj{"text": "two", "calls": []obj{bash("true")}},
			obj{"text": "three"},
		),
	)
	require.Equal(t, domain.CallError, busy.Status)
	require.Contains(t, busy.Result, "2 model calls")
	require.Contains(t, busy.Result, "two")

	for limit := 3 * time.Second; ; limit *= 3 {
		s.acts.Model.Plans.ForkLimits.Time = limit
		turns, slow := one(agent("slow", obj{"text": "a very long story", "hold": true, "hold_after": 2}))
		require.Equal(t, domain.CallError, slow.Status)
		require.Contains(t, slow.Result, "time was over")

		if !strings.Contains(slow.Result, "a very") && limit < time.Minute {
			continue // it had not come to say anything yet
		}

		require.Contains(t, slow.Result, "a very", "what it had found so far")
		require.NotEqual(t, domain.TurnStreaming, ofLoop(turns, slow.ID)[1].Status)

		return
	}
}

// asked waits until so many questions are open and gives them.
func (s *stack) asked(session domain.SessionID, n int) []domain.Question {
	s.t.Helper()

	var open []domain.Question

	require.Eventually(s.t, func() bool {
		live, err := s.journal.Live(s.t.Context(), session)
		open = live.Questions

		return err == nil && len(open) == n
	}, patience, 10*time.Millisecond)

	return open
}

func (s *stack) answerTo(session domain.SessionID, q domain.Question) {
	s.t.Helper()
	ack, err := s.chats.Answer(s.t.Context(), s.caller, session, domain.Answer{
		ToolCallID: q.ToolCallID, Selections: map[string][]int{"0": {1}},
	})
	require.NoError(s.t, err)
	require.True(s.t, ack.Resolved)
}

func TestASubAgentAsksWhileOthersWork(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			agent("asks", obj{"calls": []obj{ask(), bash("echo aside")}}, obj{"text": "so it is blue"}),
			agent("works", obj{"text": "worked on", "hold": true}),
		}},
		{"text": "done"},
	}}))
	q := s.asked(session, 1)[0]
	live, err := s.journal.Live(t.Context(), session)
	require.NoError(t, err)
	require.Equal(t, domain.SessionRunning, live.Status, "its sibling works on")
	s.releaseUntil(func() bool { return s.anyChatEnded(session) })
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	require.NotNil(t, q.SourceLoop)
	require.Equal(t, "asks", q.SourceLoop.Description)
	require.Equal(t, q.LoopID, q.SourceLoop.LoopID)

	turns := s.messages(session)
	calls := ofLoop(turns, domain.RootLoop)[1].ToolCalls
	require.Equal(t, q.SourceLoop.ParentToolCallID, calls[0].ID)
	require.Equal(t, domain.CallPending, calls[0].Status)
	require.Equal(t, "worked on", calls[1].Result)
	paused := ofLoop(turns, calls[0].ID)[1]
	require.Equal(t, domain.TurnPaused, paused.Status)
	require.Contains(t, paused.ToolCalls[0].Arguments, `"source_loop":{"loop_id":"`+calls[0].ID)
	require.Equal(t, *q.SourceLoop, *paused.ToolCalls[0].PendingQuestionRef.SourceLoop)
	s.answerTo(session, q)
	s.awaitEnds(session, ack.ChatID, 2)
	turns = s.messages(session)
	calls = ofLoop(turns, domain.RootLoop)[1].ToolCalls
	require.Equal(t, "so it is blue", calls[0].Result)
	require.Equal(t, domain.SessionCompleted, s.status(session))
	s.checkEvents(session)
}

func (s *stack) status(session domain.SessionID) domain.SessionStatus {
	s.t.Helper()
	live, err := s.journal.Live(s.t.Context(), session)
	require.NoError(s.t, err)

	return live.Status
}

func TestNestedQuestionsOfSeveralSubAgents(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	deep := agent("deep", obj{"calls": []obj{ask()}}, obj{"text": "deep is blue"})
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			ask(),
			agent("outer", obj{"calls": []obj{deep, ask()}}, obj{"text": "outer is there"}),
			agent("flat", obj{"calls": []obj{ask()}}, obj{"text": "flat is blue"}),
		}},
		{"text": "done"},
	}}))
	open := s.asked(session, 4)
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])

	for i, q := range open {
		if i == 3 {
			require.Equal(t, domain.SessionWaitingForInput, s.status(session))
		}

		s.answerTo(session, q)
	}

	s.awaitEnds(session, ack.ChatID, 2)
	turns := s.messages(session)
	calls := ofLoop(turns, domain.RootLoop)[1].ToolCalls
	require.Equal(t, "outer is there", calls[1].Result)
	require.Equal(t, "flat is blue", calls[2].Result)
	require.Equal(t, "deep is blue", ofLoop(turns, calls[1].ID)[1].ToolCalls[0].Result)
	s.checkEvents(session)
}

// While others work, a sub-agent continues as soon as it has its answer.
func TestAnAnswerMovesASubAgentWhileOthersWork(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	deep := agent("deep", obj{"calls": []obj{ask()}}, obj{"text": "deep is blue"})
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			agent("outer", obj{"calls": []obj{deep, bash("sleep 600")}}, obj{"text": "outer is there"}),
			agent("works", obj{"text": "a b c", "hold": true, "hold_after": 2}),
		}},
		{"text": "done"},
	}}))
	q := s.asked(session, 1)[0]
	s.answerTo(session, q)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(s.messages(session), func(turn domain.Turn) bool {
			return turn.LoopID == q.LoopID &&
				slices.ContainsFunc(turn.Blocks, func(b domain.Block) bool { return strings.Contains(b.Content, "deep is blue") })
		})
	}, patience, 20*time.Millisecond)
	s.stop(session)
	require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.checkEvents(session)
}

func TestAMessageInsteadOfAnAnswerEndsSubAgents(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{agent("asks", obj{"calls": []obj{agent("deep", obj{"calls": []obj{ask()}})}})}},
	}}))
	s.awaitEnd(session, ack.ChatID)
	next := s.send(session, script(obj{"steps": []obj{{"text": "instead"}}}))
	require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])

	for _, turn := range s.messages(session) {
		require.NotContains(t, []domain.TurnStatus{domain.TurnStreaming, domain.TurnPaused}, turn.Status)

		for _, call := range turn.ToolCalls {
			require.Equal(t, domain.CallCancelled, call.Status)
		}
	}

	s.checkEvents(session)
	s.noOpenForks(session)
}

func TestAStopReachesSubAgents(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	deep := agent("deep", obj{"text": "deep text that goes on", "hold": true, "hold_after": 2})
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			agent("outer", obj{"calls": []obj{deep}}),
			agent("tool", obj{"calls": []obj{bash("echo begun; sleep 600")}}),
			agent("asks", obj{"calls": []obj{ask()}}),
		}},
	}}))
	s.awaitText(session)
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "tool_progress" })
	s.asked(session, 1)
	s.stop(session)
	require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])

	for _, turn := range s.messages(session) {
		require.NotContains(t, []domain.TurnStatus{domain.TurnStreaming, domain.TurnPaused}, turn.Status)

		for _, call := range turn.ToolCalls {
			require.Equal(t, domain.CallCancelled, call.Status, call.ToolName)
		}

		for _, block := range turn.Blocks {
			if block.Type == domain.BlockText && strings.HasPrefix(block.Content, "deep") {
				require.Equal(t, domain.TurnInterrupted, turn.Status)
			}
		}
	}

	s.checkEvents(session)
	s.noOpenForks(session)
	require.Equal(t, "completed", s.awaitEnd(session, s.send(session, script(obj{"steps": []obj{{"text": "next"}}})).ChatID)["status"])
}

// noOpenForks holds that no run of a sub-agent is left behind.
func (s *stack) noOpenForks(session domain.SessionID) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		for _, turn := range s.messages(session) {
			for _, call := range turn.ToolCalls {
				if call.ToolName != "Agent" {
					continue
				}

				d, err := s.client.DescribeWorkflowExecution(s.t.Context(), "fork/"+string(turn.ChatID)+"/"+call.ID, "")
				if err == nil && d.GetWorkflowExecutionInfo().GetCloseTime() == nil {
					return false
				}
			}
		}

		return true
	}, patience, 50*time.Millisecond)
}
