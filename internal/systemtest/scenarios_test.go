package systemtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// scenarios are the main ways a run goes. Each leaves closed runs, whose
// histories are recorded for the replay tests of package workflows.
var scenarios = map[string]func(t *testing.T, s *stack, session domain.SessionID){
	"answer": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"thinking": "hm", "text": "hello there"}}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"tools": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{
			{"calls": []obj{bash("echo a"), bash("echo b"), bash("exit 1")}},
			{"calls": []obj{bash("echo c")}},
			{"text": "done"},
		}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"question": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{ask(), bash("echo beside")}}, {"text": "thanks"}}}))
		require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
		s.answer(session, 0)
		s.awaitEnds(session, ack.ChatID, 2)
	},
	"message_instead_of_answer": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{ask()}}}}))
		s.awaitEnd(session, ack.ChatID)
		next := s.send(session, script(obj{"steps": []obj{{"text": "instead"}}}))
		require.NotEqual(t, ack.ChatID, next.ChatID)
		require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])
	},
	"stop_in_stream": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"text": "a long story about everything", "hold": true, "hold_after": 2}}}))
		s.awaitText(session)
		s.stop(session)
		end := s.awaitEnd(session, ack.ChatID)
		require.Equal(t, "interrupted", end["finish_reason"])
	},
	"stop_in_tool": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("echo begun; sleep 600")}}}}))
		s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "tool_progress" })
		s.stop(session)
		require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	},
	"sub_agents": func(t *testing.T, s *stack, session domain.SessionID) {
		inner := agent("inner", obj{"text": "deep down"})
		ack := s.send(session, script(obj{"steps": []obj{
			{
				"calls": []obj{
					agent("one", obj{"calls": []obj{bash("echo a"), inner}}, obj{"text": "first"}),
					agent("two", obj{"text": "second"}),
					bash("echo b"),
				},
			},
			{"text": "done"},
		}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"sub_agent_question": func(t *testing.T, s *stack, session domain.SessionID) {
		inner := agent("inner", obj{"calls": []obj{ask()}}, obj{"text": "deep down"})
		ack := s.send(session, script(obj{"steps": []obj{
			{
				"calls": []obj{
					agent("one", obj{"calls": []obj{inner, ask()}}, obj{"text": "first"}),
					agent("two", obj{"first_delay_ms": 300, "text": "second"}),
				},
			},
			{"text": "done"},
		}}))
		require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])

		for _, q := range s.asked(session, 2) {
			s.answerTo(session, q)
		}

		s.awaitEnds(session, ack.ChatID, 2)
	},
	"sub_agent_message": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{agent("asks", obj{"calls": []obj{ask()}})}}}}))
		s.awaitEnd(session, ack.ChatID)
		next := s.send(session, script(obj{"steps": []obj{{"text": "instead"}}}))
		require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])
	},
	"sub_agent_stop": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{
			agent(
				"holds",
				obj{"text": "a long story about everything", "hold": true, "hold_after": 2},
			),
			agent("asks", obj{"calls": []obj{ask()}}),
		}}}}))
		s.awaitText(session)
		s.asked(session, 1)
		s.stop(session)
		require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	},
	"sub_agent_queue": func(t *testing.T, s *stack, session domain.SessionID) {
		limits := domain.DefaultForkLimits
		limits.MaxConcurrent, limits.Time = 1, 5*time.Second
		s.acts.Chat.ForkLimits, s.acts.Model.Plans.ForkLimits = limits, limits
		ack := s.send(session, script(obj{"steps": []obj{
			{
				"calls": []obj{
					agent("one", obj{"first_delay_ms": 300, "text": "first"}),
					agent("two", obj{"first_delay_ms": 300, "text": "second"}),
				},
			},
			{"calls": []obj{agent("slow", obj{"text": "too long for its time", "hold": true, "hold_after": 2})}},
			{"text": "done"},
		}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"background": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{
			{"calls": []obj{
				backgroundAgent(
					"agent",
					obj{"calls": []obj{bash("echo a"), agent("inner", obj{"text": "deep down"})}},
					obj{"text": "found"},
				),
				bashInBackground("echo out; exit 3"),
			}},
			{"text": "they work"},
		}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
		s.tasksEnded(session)
	},
	"background_stop": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{
			{"calls": []obj{
				backgroundAgent("agent", obj{"text": "on and on", "hold": true, "hold_after": 2}),
				bashInBackground("echo out; sleep 600"),
			}},
			{"text": "they work"},
		}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
		s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["text_delta"] == "on " })
		s.awaitProcess(session)
		tasks, err := s.tasks.List(t.Context(), session)
		require.NoError(t, err)

		for _, task := range tasks {
			_, err := s.tasks.Stop(t.Context(), session, task.TaskID)
			require.NoError(t, err)
		}

		for _, task := range s.tasksEnded(session) {
			require.Equal(t, domain.TaskStopped, task.Status)
		}
	},
	"background_lost": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bashInBackground("echo out; sleep 600")}}, {"text": "it works"}}}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
		s.awaitProcess(session)
		s.worker.Stop()
		s.startWorker()
		task := s.tasksEnded(session)[0]
		require.Equal(t, domain.TaskLost, task.Status)
		require.NotEmpty(t, task.Reason)
	},
	"permission": func(t *testing.T, s *stack, session domain.SessionID) {
		_, err := s.journal.SetSessionSetup(t.Context(), s.caller.User, session, askAboutTouch)
		require.NoError(t, err)

		ack := s.send(
			session,
			script(
				obj{
					"steps": []obj{
						{
							"calls": []obj{
								bash("echo held"),
								bash("true"),
								agent("too", obj{"calls": []obj{bash("echo inside")}}, obj{"text": "done"}),
							},
						},
						{"text": "thanks"},
					},
				},
			),
		)
		s.awaitEnd(session, ack.ChatID)

		for _, q := range s.asked(session, 2) {
			s.permit(session, q, 0, "")
		}

		s.awaitEnds(session, ack.ChatID, 2)
	},
	"budget": func(t *testing.T, s *stack, session domain.SessionID) {
		most := int64(1)
		_, err := s.journal.SetSessionBudget(t.Context(), s.caller.User, session, domain.Budget{MaxTokens: &most})
		require.NoError(t, err)

		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("true")}}, {"text": "never"}}}))
		require.Equal(t, "budget_exhausted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	},
	"queue": func(t *testing.T, s *stack, session domain.SessionID) {
		first := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("sleep 0.3")}}, {"text": "one"}}}))
		second := s.send(session, script(obj{"steps": []obj{{"text": "two"}}}))
		s.awaitEnd(session, first.ChatID)
		require.Equal(t, "completed", s.awaitEnd(session, second.ChatID)["status"])
	},
	"rate_limit": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"status": 429, "fail_times": 1, "text": "there"}}, "note": session}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"cut_stream": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(
			session,
			script(obj{"steps": []obj{{"text": "one two three four", "cut_after": 2, "fail_times": 1}}, "note": session}),
		)
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	},
	"refused": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"status": 400, "fail_times": 99}}, "note": session}))
		require.Equal(t, "failed", s.awaitEnd(session, ack.ChatID)["status"])
	},
}

func TestScenarios(t *testing.T) {
	t.Parallel()

	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			session := s.session()
			scenario(t, s, session)
			s.checkEvents(session)
			s.replay(session, name)
		})
	}
}

func bash(command string) obj { return obj{"name": "Bash", "arguments": obj{"command": command}} }

func bashInBackground(command string) obj {
	return obj{"name": "Bash", "arguments": obj{"command": command, "run_in_background": true}}
}

func ask() obj {
	return obj{"name": "AskUserQuestion", "arguments": obj{"questions": []obj{{
		"question": "Which?", "header": "Choice", "options": []obj{{"label": "red"}, {"label": "blue"}},
	}}}}
}

func (s *stack) answer(session domain.SessionID, option int) domain.AnswerAck {
	s.t.Helper()
	live, err := s.journal.Live(s.t.Context(), session)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, live.Questions)
	ack, err := s.chats.Answer(s.t.Context(), s.caller, session, domain.Answer{
		ToolCallID: live.Questions[0].ToolCallID, Selections: map[string][]int{"0": {option}},
	})
	require.NoError(s.t, err)

	return ack
}

func (s *stack) stop(session domain.SessionID) {
	s.t.Helper()
	stopped, err := s.chats.Stop(s.t.Context(), s.caller, session, false)
	require.NoError(s.t, err)
	require.True(s.t, stopped)
}

func (s *stack) awaitText(session domain.SessionID) {
	s.t.Helper()
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "add_content" })
}

func (s *stack) awaitEnds(session domain.SessionID, chatID domain.ChatID, n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		ends := 0

		for _, e := range s.events(session) {
			if e.Name == domain.EventChatEnd && e.ChatID == chatID {
				ends++
			}
		}

		return ends == n
	}, patience, 10*time.Millisecond)
}

// checkEvents holds what is true of the events of every session: one chat:end a
// chat:start, no turn ended twice but paused ones, and an unbroken chain.
func (s *stack) checkEvents(session domain.SessionID) {
	s.t.Helper()

	var previous uint64

	open := map[domain.ChatID]int{}
	ended := map[string]string{}

	for _, e := range s.events(session) {
		require.Equal(s.t, previous, e.PrevSeq)
		require.Greater(s.t, e.Seq, previous)
		previous = e.Seq

		data := fields(e)
		switch e.Name {
		case domain.EventChatStart:
			if data["resumed"] == true {
				require.Equal(s.t, 1, open[e.ChatID], "only a chat that has started can be resumed")
				continue
			}

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
