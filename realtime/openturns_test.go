package realtime_test

import (
	"testing"

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
