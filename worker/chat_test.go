package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
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
		{"calls": []obj{{"name": "Bash", "arguments": obj{"command": "echo one >> log; cat log"}}, {"name": "Bash", "arguments": obj{"command": "exit 3"}}}},
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
