package conversation_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

// What the model server needs back of its answers is stored with them, and only
// the prompt has it.
func TestStore_CloseTurn_storesWhatTheModelServerNeedsBack(t *testing.T) {
	t.Parallel()
	j, log, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 1)
	entry := domain.NewID()
	_, err := j.Pool.Exec(t.Context(), `
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, step, attempt)
		VALUES ($1, $2, $3, 1, $4, 'assistant', 'streaming', 1, 1)`, entry, session.ID, session.ActiveBranchID, chat)
	require.NoError(t, err)

	ids := []string{"functions.Bash:0", "", "functions.Bash:0", "ö \"1\""}

	closing := domain.ClosingTurn{
		TurnKey: domain.TurnKey{SessionID: session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: 1},
		EntryID: domain.TurnID(entry), Attempt: 1, Status: domain.TurnCompleted, Model: "m", ReasoningField: domain.Reasoning,
		ServerMembers: `{"reasoning_details":["\u0000"]}`,
		Blocks:        []domain.Block{{Type: domain.BlockThinking, Content: "hm"}},
	}
	for _, id := range ids {
		closing.Calls = append(
			closing.Calls,
			domain.PlannedCall{
				ID:            domain.NewToolCallID(),
				ServerCallID:  id,
				ToolName:      "Bash",
				Arguments:     "{}",
				ServerMembers: fmt.Sprintf(`{"signature":%q}`, id),
			},
		)
	}

	require.NoError(t, j.CloseTurn(t.Context(), closing))

	transcript, err := j.Transcript(
		t.Context(),
		domain.TranscriptQuery{ChatID: chat, BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 1 << 40},
	)
	require.NoError(t, err)

	last := transcript.Turns[len(transcript.Turns)-1]
	require.Equal(t, domain.Reasoning, last.ReasoningField)

	require.Equal(t, closing.ServerMembers, last.ServerMembers)

	for i, call := range last.Calls {
		require.Equal(t, closing.Calls[i].ServerMembers, call.ServerMembers)
	}

	var got []string
	for _, call := range last.Calls {
		got = append(got, call.ServerCallID)
	}

	require.Equal(t, ids, got)

	for _, e := range log.Events() {
		require.NotContains(t, string(e.Data), "functions.Bash:0", "clients see Everloop's ids only")
		require.NotContains(t, string(e.Data), "signature")
	}

	_, err = j.Pool.Exec(t.Context(), `UPDATE entries SET reasoning_field = 'content' WHERE id = $1`, entry)
	require.ErrorContains(t, err, "reasoning_field", "only the two fields are stored")
}
