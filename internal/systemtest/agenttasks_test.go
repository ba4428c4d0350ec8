package systemtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// backgroundAgent returns a call that starts a sub-agent which outlives the chat.
func backgroundAgent(description string, steps ...obj) obj {
	return agentOf(description, obj{"run_in_background": true}, steps...)
}

// tasksEnded waits until no background task of the session runs and gives them.
func (s *stack) tasksEnded(session domain.SessionID) []domain.BackgroundTask {
	s.t.Helper()

	var tasks []domain.BackgroundTask

	require.Eventually(s.t, func() bool {
		var err error

		tasks, err = s.tasks.List(s.t.Context(), session)

		return err == nil && len(tasks) > 0 &&
			!slices.ContainsFunc(tasks, func(b domain.BackgroundTask) bool { return b.Status == domain.TaskRunning })
	}, patience, 20*time.Millisecond)

	return tasks
}

// awaitProcess waits until a background command of the session has started.
func (s *stack) awaitProcess(session domain.SessionID) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		tasks, err := s.tasks.List(s.t.Context(), session)
		return err == nil && slices.ContainsFunc(tasks, func(b domain.BackgroundTask) bool { return b.PID != nil })
	}, patience, 10*time.Millisecond)
}

func TestABackgroundSubAgentOutlivesItsChat(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{backgroundAgent("dig", obj{"text": "Digging.", "hold": true, "calls": []obj{
			bash("sleep 0.3; echo gold"), ask(), agent("helper", obj{"text": "a shovel"}),
		}}, obj{"text": "found gold"})}},
		{"text": "it digs"},
	}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	tasks, err := s.tasks.List(t.Context(), session)
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	require.Equal(t, domain.TaskAgent, tasks[0].Kind)
	require.Equal(t, domain.TaskRunning, tasks[0].Status)

	call := ofLoop(s.messages(session), domain.RootLoop)[1].ToolCalls[0]
	require.Equal(t, domain.CallDone, call.Status)
	require.Contains(t, call.Result, tasks[0].TaskID)

	// A stop of the session's next chat is not for it.
	held := s.send(session, script(obj{"steps": []obj{{"text": "one two three", "hold": true, "hold_after": 1}}}))
	s.await(
		session,
		domain.EventTurnPatch,
		func(d map[string]any) bool {
			return d["patch_type"] == "add_content" && d["chat_id"] == string(held.ChatID)
		},
	)
	s.stop(session)
	s.awaitEnd(session, held.ChatID)

	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["text_delta"] == "Digging." })
	s.releaseUntil(func() bool {
		now, err := s.tasks.List(t.Context(), session)
		return err == nil && now[0].Status != domain.TaskRunning
	})
	task := s.tasksEnded(session)[0]
	require.Equal(t, domain.TaskCompleted, task.Status)
	require.Equal(t, call.ID, *task.ToolCallID)
	out, err := s.tasks.Output(t.Context(), session, task.TaskID, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"Digging.", "", "found gold"}, out.Lines)

	turns := s.messages(session)
	for i, turn := range turns {
		require.EqualValues(t, i, turn.Sequence)
	}

	dig := ofLoop(turns, call.ID)
	require.Len(t, dig, 3)
	require.Equal(t, ack.ChatID, dig[0].ChatID)
	require.Equal(t, domain.CallDone, dig[1].ToolCalls[0].Status)
	require.Equal(t, domain.CallError, dig[1].ToolCalls[1].Status, "no user is there to answer")
	require.Equal(t, "a shovel", dig[1].ToolCalls[2].Result)

	next := s.send(session, script(obj{"steps": []obj{{"text": "good"}}}))
	s.awaitEnd(session, next.ChatID)
	require.True(t, slices.ContainsFunc(s.messages(session), func(turn domain.Turn) bool {
		return turn.Role == domain.RoleSystem && turn.ChatID == next.ChatID && strings.Contains(turn.Blocks[0].Content, "found gold")
	}), "its result joins the next model call")
}

// A task that a sub-agent in the background starts names the sub-agent's task, also where a
// sub-agent of it starts it; what the main agent starts has none.
func TestTasksOfABackgroundSubAgentNameIt(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			bashInBackground("echo main"),
			backgroundAgent("starts", obj{"calls": []obj{
				bashInBackground("echo own"), agent("inner", obj{"calls": []obj{bashInBackground("echo inner")}}),
			}}),
		}},
		{"text": "started"},
	}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])

	parents, ids := map[string]*string{}, map[string]string{}

	for _, task := range s.tasksEnded(session) {
		parents[task.Title], ids[task.Title] = task.ParentTaskID, task.TaskID
	}

	require.Len(t, parents, 4, "%v", parents)
	require.Nil(t, parents["echo main"])
	require.Nil(t, parents["starts"])

	starter := ids["starts"]
	require.Equal(t, &starter, parents["echo own"])
	require.Equal(t, &starter, parents["echo inner"])

	s.await(session, domain.EventTaskUpdated, func(d map[string]any) bool {
		return d["task_id"] == ids["echo own"] && d["parent_task_id"] == starter
	})
}

func TestABackgroundSubAgentIsStoppedByItsTask(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			backgroundAgent("streams", obj{"text": "on and on", "hold": true, "hold_after": 2}),
			backgroundAgent("runs", obj{"calls": []obj{bash("echo begun; sleep 600")}}),
			backgroundAgent("nests", obj{"calls": []obj{agent("inner", obj{"text": "deep text", "hold": true, "hold_after": 1})}}),
		}},
		{"text": "they work"},
	}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "tool_progress" })

	for _, begins := range []string{"on ", "deep "} {
		s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["text_delta"] == begins })
	}

	tasks, err := s.tasks.List(t.Context(), session)
	require.NoError(t, err)

	for _, task := range tasks {
		_, err := s.tasks.Stop(t.Context(), session, task.TaskID)
		require.NoError(t, err)
	}

	for _, task := range s.tasksEnded(session) {
		require.Equal(t, domain.TaskStopped, task.Status)
	}

	for _, turn := range s.messages(session) {
		require.NotEqual(t, domain.TurnStreaming, turn.Status)

		for _, call := range turn.ToolCalls {
			require.NotEqual(t, domain.CallPending, call.Status)
		}
	}
}

func TestABackgroundSubAgentWhoseRunIsGoneIsLost(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{backgroundAgent("streams", obj{"text": "on and on", "hold": true, "hold_after": 2})}},
		{"text": "it works"},
	}}))
	s.awaitEnd(session, ack.ChatID)
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["text_delta"] == "on " })
	tasks, err := s.tasks.List(t.Context(), session)
	require.NoError(t, err)
	require.NoError(t, s.client.TerminateWorkflow(t.Context(), "task/"+tasks[0].TaskID, "", "test"))
	require.Eventually(t, func() bool {
		require.NoError(t, s.tasks.Repair(t.Context()))
		now, err := s.tasks.List(t.Context(), session)

		return err == nil && now[0].Status == domain.TaskLost
	}, patience, 200*time.Millisecond)
}

// What a worker was doing for sub-agents when it was lost continues in the next:
// the same sub-agents, and no call twice.
func TestSubAgentsGoOnWithAnotherWorker(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{
			agent(
				"counts",
				obj{"calls": []obj{bash("echo x >> count; wc -l < count")}},
				obj{"text": "half way", "delay_ms": 400},
				obj{"text": "counted"},
			),
			agent("asks", obj{"calls": []obj{ask()}}, obj{"text": "asked"}),
			agent("nests", obj{"calls": []obj{agent("inner", obj{"text": "one two three", "delay_ms": 500})}}, obj{"text": "nested"}),
		}},
		{"text": "done"},
	}}))
	s.asked(session, 1)
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "tool_result" })
	s.worker.Stop()
	s.startWorker()
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.worker.Stop()
	s.startWorker()
	s.answerTo(session, s.asked(session, 1)[0])
	s.awaitEnds(session, ack.ChatID, 2)

	calls := ofLoop(s.messages(session), domain.RootLoop)[1].ToolCalls
	for i, want := range []string{"half way", "asked", "nested"} {
		require.Equal(t, domain.CallDone, calls[i].Status)
		require.Equal(t, want, calls[i].Result)
	}

	for _, turn := range ofLoop(s.messages(session), calls[0].ID) {
		for _, call := range turn.ToolCalls {
			require.Equal(t, "1", strings.TrimSpace(call.Result))
		}
	}

	s.checkEvents(session)
}
