package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/internal/durable"
)

// scenarios are the main ways a run goes. Each leaves closed runs, whose
// histories are recorded for the replay tests of package workflows.
var scenarios = map[string]func(t *testing.T, s *stack, session string){
	"answer": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"thinking": "hm", "text": "hello there"}}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"tools": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{
			{"calls": []obj{bash("echo a"), bash("echo b"), bash("exit 1")}},
			{"calls": []obj{bash("echo c")}},
			{"text": "done"},
		}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"question": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{ask(), bash("echo beside")}}, {"text": "thanks"}}}))
		require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
		s.answer(session, 0)
		s.awaitEnds(session, ack.ChatID, 2)
	},
	"message_instead_of_answer": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{ask()}}}}))
		s.awaitEnd(session, ack.ChatID)
		next := s.send(session, script(obj{"steps": []obj{{"text": "instead"}}}))
		require.NotEqual(t, ack.ChatID, next.ChatID)
		require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])
	},
	"stop_in_stream": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"text": "a long story about everything", "hold": true, "hold_after": 2}}}))
		s.awaitText(session)
		s.stop(session)
		end := s.awaitEnd(session, ack.ChatID)
		require.Equal(t, "interrupted", end["finish_reason"])
	},
	"stop_in_tool": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("echo begun; sleep 60")}}}}))
		s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "tool_progress" })
		s.stop(session)
		require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	},
	"sub_agents": func(t *testing.T, s *stack, session string) {
		inner := agent("inner", obj{"text": "deep down"})
		ack := s.send(session, script(obj{"steps": []obj{
			{"calls": []obj{agent("one", obj{"calls": []obj{bash("echo a"), inner}}, obj{"text": "first"}), agent("two", obj{"text": "second"}), bash("echo b")}},
			{"text": "done"},
		}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"sub_agent_question": func(t *testing.T, s *stack, session string) {
		inner := agent("inner", obj{"calls": []obj{ask()}}, obj{"text": "deep down"})
		ack := s.send(session, script(obj{"steps": []obj{
			{"calls": []obj{agent("one", obj{"calls": []obj{inner, ask()}}, obj{"text": "first"}), agent("two", obj{"first_delay_ms": 300, "text": "second"})}},
			{"text": "done"},
		}}))
		require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
		for _, q := range s.asked(session, 2) {
			s.answerTo(session, q)
		}
		s.awaitEnds(session, ack.ChatID, 2)
	},
	"sub_agent_message": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{agent("asks", obj{"calls": []obj{ask()}})}}}}))
		s.awaitEnd(session, ack.ChatID)
		next := s.send(session, script(obj{"steps": []obj{{"text": "instead"}}}))
		require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])
	},
	"sub_agent_stop": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{
			agent("holds", obj{"text": "a long story about everything", "hold": true, "hold_after": 2}), agent("asks", obj{"calls": []obj{ask()}}),
		}}}}))
		s.awaitText(session)
		s.asked(session, 1)
		s.stop(session)
		require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	},
	"sub_agent_queue": func(t *testing.T, s *stack, session string) {
		s.acts.ForkLimits.AtOnce, s.acts.ForkLimits.Time = 1, 5*time.Second
		ack := s.send(session, script(obj{"steps": []obj{
			{"calls": []obj{agent("one", obj{"first_delay_ms": 300, "text": "first"}), agent("two", obj{"first_delay_ms": 300, "text": "second"})}},
			{"calls": []obj{agent("slow", obj{"text": "too long for its time", "hold": true, "hold_after": 2})}},
			{"text": "done"},
		}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"queue": func(t *testing.T, s *stack, session string) {
		first := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("sleep 0.3")}}, {"text": "one"}}}))
		second := s.send(session, script(obj{"steps": []obj{{"text": "two"}}}))
		s.awaitEnd(session, first.ChatID)
		require.Equal(t, "completed", s.awaitEnd(session, second.ChatID)["status"])
	},
	"rate_limit": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"status": 429, "fail_times": 1, "text": "there"}}, "note": session}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"cut_stream": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"text": "one two three four", "cut_after": 2, "fail_times": 1}}, "note": session}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"refused": func(t *testing.T, s *stack, session string) {
		ack := s.send(session, script(obj{"steps": []obj{{"status": 400, "fail_times": 99}}, "note": session}))
		require.Equal(t, "failed", s.awaitEnd(session, ack.ChatID)["status"])
	},
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	record := os.Getenv("EVERLOOP_RECORD") != ""
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			session := s.session()
			scenario(t, s, session)
			s.checkEvents(session)
			if record {
				s.record(session, name)
			}
		})
	}
}

// record keeps the histories of a session's closed runs as replay test data.
func (s *stack) record(session, name string) {
	s.t.Helper()
	dir := filepath.Join("..", "workflows", "testdata", "replay")
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	for i, history := range s.histories(session) {
		raw, err := protojson.MarshalOptions{Multiline: true}.Marshal(history)
		require.NoError(s.t, err)
		suffix := ""
		if i > 0 {
			suffix = "_next"
		}
		require.NoError(s.t, os.WriteFile(filepath.Join(dir, name+suffix+".json"), raw, 0o644))
	}
	for _, turn := range s.messages(session) {
		for _, call := range turn.ToolCalls {
			if call.ToolName != tools.Agent {
				continue
			}
			raw, err := protojson.MarshalOptions{Multiline: true}.Marshal(s.history(durable.ForkWorkflowID(turn.ChatID, call.ID), ""))
			require.NoError(s.t, err)
			var about tools.AgentArguments
			require.NoError(s.t, json.Unmarshal([]byte(call.Arguments), &about))
			require.NoError(s.t, os.WriteFile(filepath.Join(dir, name+"_fork_"+about.Description+".json"), raw, 0o644))
		}
	}
}

// history gives the history of one run.
func (s *stack) history(id, run string) *historypb.History {
	s.t.Helper()
	history := &historypb.History{}
	events := s.client.GetWorkflowHistory(s.t.Context(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(s.t, err)
		history.Events = append(history.Events, event)
	}
	return history
}

// histories gives the histories of a session's runs once the last has closed, in
// the order of their starts.
func (s *stack) histories(session string) []*historypb.History {
	s.t.Helper()
	id := durable.SessionWorkflowID(session)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var all []*historypb.History
	run := s.client.GetWorkflow(ctx, id, "").GetRunID()
	require.NoError(s.t, s.client.GetWorkflow(ctx, id, "").Get(ctx, nil))
	for run != "" {
		history := &historypb.History{}
		events := s.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			require.NoError(s.t, err)
			history.Events = append(history.Events, event)
		}
		all = append([]*historypb.History{history}, all...)
		run = history.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
	}
	return all
}

func bash(command string) obj { return obj{"name": "Bash", "arguments": obj{"command": command}} }

func ask() obj {
	return obj{"name": "AskUserQuestion", "arguments": obj{"questions": []obj{{
		"question": "Which?", "header": "Choice", "options": []obj{{"label": "red"}, {"label": "blue"}},
	}}}}
}

func (s *stack) answer(session string, option int) domain.AnswerAck {
	s.t.Helper()
	live, err := s.journal.Live(s.t.Context(), session)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, live.Questions)
	ack, err := s.desk.Answer(s.t.Context(), s.caller, session, domain.Answer{
		ToolCallID: live.Questions[0].ToolCallID, Selections: map[string][]int{"0": {option}},
	})
	require.NoError(s.t, err)
	return ack
}

func (s *stack) stop(session string) {
	s.t.Helper()
	stopped, err := s.desk.Stop(s.t.Context(), s.caller, session, false)
	require.NoError(s.t, err)
	require.True(s.t, stopped)
}

func (s *stack) awaitText(session string) {
	s.t.Helper()
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "add_content" })
}

func (s *stack) awaitEnds(session, chatID string, n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		ends := 0
		for _, e := range s.events(session) {
			if e.Name == domain.EventChatEnd && e.ChatID == chatID {
				ends++
			}
		}
		return ends == n
	}, 30*time.Second, 10*time.Millisecond)
}

// checkEvents holds what is true of the events of every session: one chat:end a
// chat:start, no turn ended twice but paused ones, and an unbroken chain.
func (s *stack) checkEvents(session string) {
	s.t.Helper()
	var previous uint64
	open := map[string]int{}
	ended := map[string]string{}
	for _, e := range s.events(session) {
		require.Equal(s.t, previous, e.PrevSeq)
		require.Greater(s.t, e.Seq, previous)
		previous = e.Seq
		data := fields(e)
		switch e.Name {
		case domain.EventChatStart:
			open[e.ChatID]++
			require.Equal(s.t, 1, open[e.ChatID], "chat started twice")
		case domain.EventChatEnd:
			open[e.ChatID]--
			require.Zero(s.t, open[e.ChatID], "chat ended twice")
		case domain.EventTurnEnd:
			id := data["turn_id"].(string)
			if before, again := ended[id]; again {
				require.Equal(s.t, "paused", before, "turn ended twice")
			}
			ended[id] = data["status"].(string)
		}
	}
	for chat, n := range open {
		require.Zero(s.t, n, "chat %s did not end", chat)
	}
}
