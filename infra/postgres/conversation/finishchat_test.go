package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
)

// A run that another has replaced ends the chat, which waits for an answer by then: the
// question stays open, and chat:end is not emitted again.
func TestStore_FinishChat_leavesAChatThatWaits(t *testing.T) {
	t.Parallel()
	d := newDecisions(t)
	d.set(`UPDATE chats SET state = $1 WHERE id = 'chat'`, domain.ChatStateWaiting)

	for _, reason := range []domain.FinishReason{domain.FinishCompleted, domain.FinishFailed, domain.FinishInterrupted} {
		out, err := d.store.FinishChat(t.Context(), contract.FinishChatIn{ChatID: "chat", Reason: reason}, nil)
		require.NoError(t, err)
		require.Zero(t, out)
	}

	var state domain.ChatState
	require.NoError(t, d.store.Pool.QueryRow(t.Context(), `SELECT state FROM chats WHERE id = 'chat'`).Scan(&state))
	require.Equal(t, domain.ChatStateWaiting, state)
}

// A database that was restored to a time before a chat does not have it: its run ends.
func TestStore_endsTheRunOfAChatThatDoesNotExist(t *testing.T) {
	t.Parallel()
	d := newDecisions(t)

	for _, reason := range []domain.FinishReason{domain.FinishCompleted, domain.FinishFailed} {
		out, err := d.store.FinishChat(t.Context(), contract.FinishChatIn{ChatID: "unknown", Reason: reason}, nil)
		require.NoError(t, err)
		require.Zero(t, out)
	}

	parked, err := d.store.ParkChat(t.Context(), contract.ParkChatIn{ChatID: "unknown"})
	require.NoError(t, err)
	require.Equal(t, contract.Closed, parked.State)
	checked, err := d.store.CheckChat(t.Context(), contract.CheckChatIn{ChatID: "unknown"})
	require.NoError(t, err)
	require.Equal(t, contract.Closed, checked.State)
}
