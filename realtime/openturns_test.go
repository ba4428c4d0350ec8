package realtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/realtime"
)

// The records of a turn that was paused have all of its text, the log not yet.
func TestSubscribe_turnPausedBeforeItsEvent(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	a := s.author(domain.NewID(), 1)
	a.publish(domain.EventTurnStart, map[string]any{"turn_id": "t1", "role": "assistant", "status": "streaming"})
	flushed := a.publish(domain.EventTurnPatch, map[string]any{
		"turn_id": "t1", "patch_type": "add_content", "block_type": "text", "text_delta": "one ", "offset": 0,
	})
	s.reached(flushed)
	s.state.set(a.session, domain.LiveState{OpenTurns: []domain.OpenTurn{{
		Turn: domain.Turn{
			TurnID: "t1",
			Status: domain.TurnPaused,
			Blocks: []domain.Block{{Type: "text", Content: "one two"}},
		}, FlushedSeq: flushed,
	}}})
	turns := s.subscribe(a.session, nil).Snapshot().OpenTurns
	require.Equal(t, "[text one ]", text(turns[0].Blocks))
}

// A call that waits for an answer has the reference to its question until its result.
func TestSubscribe_openTurnHasItsQuestion(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	a := s.author(domain.NewID(), 1)
	started := a.publish(domain.EventTurnStart, map[string]any{"turn_id": "t1", "role": "assistant", "status": "streaming"})
	s.state.set(a.session, domain.LiveState{OpenTurns: []domain.OpenTurn{{
		Turn: domain.Turn{TurnID: "t1", Status: domain.TurnStreaming}, FlushedSeq: started,
	}}})

	asked := domain.PendingQuestionRef{QuestionID: "q1", AskedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.reached(a.publish(domain.EventTurnPatch, map[string]any{
		"turn_id": "t1", "patch_type": domain.PatchAddToolCall,
		"tool_call": domain.PatchedToolCall{ID: "call_1", Status: domain.CallAwaitingAnswer, PendingQuestionRef: &asked},
	}))

	calls := s.subscribe(a.session, nil).Snapshot().OpenTurns[0].ToolCalls
	require.Len(t, calls, 1)
	require.Equal(t, &asked, calls[0].PendingQuestionRef)

	s.reached(a.publish(domain.EventTurnPatch, map[string]any{
		"turn_id": "t1", "patch_type": domain.PatchToolResult, "tool_call_id": "call_1", "result": "blue", "status": domain.CallDone,
	}))

	calls = s.subscribe(a.session, nil).Snapshot().OpenTurns[0].ToolCalls
	require.Equal(t, "blue", calls[0].Result)
	require.Nil(t, calls[0].PendingQuestionRef)
}
