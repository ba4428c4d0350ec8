package systemtest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"everloop/domain"
	"everloop/internal/durable"
)

func TestAChatStreamsItsAnswer(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{{"thinking": "hm", "text": "hello there"}}}))
	require.Equal(t, domain.DeliverRun, ack.DeliveryApplied)

	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "completed", end["status"])

	turns := s.messages(session)
	require.Len(t, turns, 2)
	require.Equal(t, domain.RoleUser, turns[0].Role)
	require.Equal(t, ack.TurnID, turns[0].TurnID)
	require.Equal(t, "hello there", turns[1].Blocks[1].Content)
	require.Equal(t, int64(1), turns[1].Sequence)
}

func TestToolsRunInALoop(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{
			"calls": []obj{
				{"name": "Bash", "arguments": obj{"command": "echo one >> log; cat log"}},
				{"name": "Bash", "arguments": obj{"command": "exit 3"}},
			},
		},
		{"text": "done"},
	}}))
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "completed", end["status"], end)
	require.EqualValues(t, 2, end["steps"])

	turns := s.messages(session)
	require.Len(t, turns, 3)
	require.Equal(t, domain.CallDone, turns[1].ToolCalls[0].Status)
	require.Equal(t, domain.CallError, turns[1].ToolCalls[1].Status)
}

// A thousand model calls must stay below 5 MB of history: the share of one is
// measured on a chat that is long enough for the rest not to count.
func TestLongChatsLeaveSmallHistories(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.acts.Fast.Off = false // what is measured is a step of the service as it runs
	session := s.session()

	const steps = 60

	ack := s.send(session, script(obj{"loop": obj{"n": steps, "call": bash("true")}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])

	size := 0
	for _, history := range s.histories(durable.SessionWorkflowID(string(session))) {
		size += proto.Size(history)
	}

	require.Less(t, size/steps*1000, 5<<20, "bytes of a chat of 1,000 model calls")
}

func TestAStopReachesAModelCallThatWaitsForItsNextTry(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{{"status": 429, "retry_after": 60}}}))
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "retry" })
	s.stop(session)
	require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.checkEvents(session)
}
