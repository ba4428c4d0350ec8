package realtime_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/realtime"
)

// A worker that stalled publishes a delta behind the end of its turn: no client
// sees it, live or from the log, and the chain of prev_seq has no hole. The transcript of a
// recording comes there too, and is no such delta.
func TestSubscription_leavesOutDeltasOfEndedTurns(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	session := domain.NewID()
	a := s.author(session, 1)
	delta := func(turn, text string, offset int) {
		a.publish(domain.EventTurnPatch, map[string]any{
			"turn_id": turn, "patch_type": "add_content", "block_type": "text", "text_delta": text, "offset": offset,
		})
	}
	zero := uint64(0)
	live := s.subscribe(domain.SessionID(session), &zero)

	a.publish(domain.EventTurnStart, map[string]any{"turn_id": "t1", "role": "assistant", "status": "streaming"})
	delta("t1", "a", 0)
	a.publish(domain.EventTurnEnd, map[string]any{"turn_id": "t1", "status": "failed"})
	delta("t1", "late", 1)
	delta("t1", "later", 5)
	a.publish(
		domain.EventTurnPatch,
		map[string]any{"turn_id": "t1", "patch_type": "tool_result", "tool_call_id": "call_1", "status": "done"},
	)
	a.publish(domain.EventTurnPatch, map[string]any{
		"turn_id": "t1", "patch_type": "add_content", "block_type": "text", "text_delta": "heard", "offset": 0, "transcript": true,
	})
	a.publish(domain.EventTurnStart, map[string]any{"turn_id": "t2", "role": "assistant", "status": "streaming"})
	a.publish(domain.EventTurnEnd, map[string]any{"turn_id": "t2", "status": "paused"})
	delta("t2", "b", 0)

	end := a.events[len(a.events)-1].Seq

	for name, sub := range map[string]*realtime.Subscription{"live": live, "from the log": s.subscribe(domain.SessionID(session), &zero)} {
		var (
			before uint64
			names  []string
		)

		for _, e := range next(t, sub, 8) {
			require.Equal(t, before, e.PrevSeq, name)
			require.NotContains(t, string(e.Data), "late", name)
			before = e.Seq
			names = append(names, e.Name)
		}

		require.Equal(t, end, before)
		require.Equal(t, []string{
			domain.EventTurnStart, domain.EventTurnPatch, domain.EventTurnEnd, domain.EventTurnPatch, domain.EventTurnPatch,
			domain.EventTurnStart, domain.EventTurnEnd, domain.EventTurnPatch,
		}, names)
	}
}
