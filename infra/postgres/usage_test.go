package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestAuxiliaryCallsCountForTheirChat(t *testing.T) {
	t.Parallel()
	db := open(t)
	user := person(t, db, "asker", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)
	other, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)
	chat := domain.NewID()
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, model, input_tokens) VALUES ($1, $2, $3, 'user', 'executing', 'running', 'large', 100)`,
		chat, session.ID, session.ActiveBranchID)
	require.NoError(t, err)

	model, err := db.ChatModel(t.Context(), session.ID, chat)
	require.NoError(t, err)
	require.Equal(t, "large", model)
	_, err = db.ChatModel(t.Context(), other.ID, chat)
	require.Equal(t, domain.NotFound, domain.AsError(err).Kind)

	require.NoError(t, db.CountUsage(t.Context(), session.ID, chat, domain.Usage{InputTokens: 20, OutputTokens: 3}, 0.5))
	require.NoError(t, db.CountUsage(t.Context(), session.ID, chat, domain.Usage{InputTokens: 1, OutputTokens: 1}, 0.25))
	require.NoError(t, db.CountUsage(t.Context(), other.ID, chat, domain.Usage{InputTokens: 1000}, 9))
	var input, output int64
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT input_tokens, output_tokens FROM chats WHERE id = $1`, chat).Scan(&input, &output))
	require.Equal(t, []int64{121, 4}, []int64{input, output})
	spent, err := db.SessionBudget(t.Context(), user, session.ID)
	require.NoError(t, err)
	require.Equal(t, domain.SpentBudget{UsedTokens: 25, UsedCost: 0.75}, spent)

	_, err = db.Pool.Exec(t.Context(), `UPDATE chats SET model = NULL WHERE id = $1`, chat)
	require.NoError(t, err)
	model, err = db.ChatModel(t.Context(), session.ID, chat)
	require.NoError(t, err)
	require.Empty(t, model)
}
