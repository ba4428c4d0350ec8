package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/postgres/sessions"
	"everloop/service/accounts"
)

func TestAuxiliaryCallsCountForTheirChat(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := pgtest.User(t, db, "asker", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)
	other, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	chat := domain.NewID()
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, model, input_tokens)
		    VALUES ($1, $2, $3, 'user', 'executing', 'running', 'large', 100)`,
		chat, session.ID, session.ActiveBranchID)
	require.NoError(t, err)

	model, err := db.ChatModel(t.Context(), session.ID, domain.ChatID(chat))
	require.NoError(t, err)
	require.Equal(t, "large", model)
	_, err = db.ChatModel(t.Context(), other.ID, domain.ChatID(chat))
	require.Equal(t, domain.NotFound, domain.AsError(err).Kind)

	count := func(sessionID domain.SessionID, model string, used domain.Usage) {
		require.NoError(t, db.CountUsage(t.Context(), sessionID, domain.ChatID(chat), model, used))
	}
	count(session.ID, "large", domain.Usage{InputTokens: 20, OutputTokens: 3, CacheReadTokens: 8, CacheWriteTokens: 2, Cost: 500_000_000})
	count(session.ID, "large", domain.Usage{InputTokens: 1, OutputTokens: 1, Cost: 1})
	count(session.ID, "free", domain.Usage{InputTokens: 5, OutputTokens: 2, UncostedTokens: 7})
	count(other.ID, "large", domain.Usage{InputTokens: 1000, Cost: 9_000_000_000})

	var got domain.Usage
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT `+sessions.UsageColumns("c")+` FROM chats c
		WHERE id = $1`, chat).Scan(sessions.UsageFields(&got)...))
	require.Equal(t, domain.Usage{
		InputTokens: 126, OutputTokens: 6, CacheReadTokens: 8, CacheWriteTokens: 2, Cost: 500_000_001, UncostedTokens: 7,
	}, got)
	spent, err := db.SessionBudget(t.Context(), user, session.ID)
	require.NoError(t, err)
	require.Equal(t, domain.SpentBudget{UsedTokens: 32, UsedCost: 500_000_001}, spent)

	sums, err := accounts.New(db.DB).SessionUsage(t.Context(), session.ID)
	require.NoError(t, err)
	require.EqualValues(t, 3, sums.Calls)
	require.Equal(t, domain.UncostedUsage{InputTokens: 5, OutputTokens: 2}, sums.Uncosted)
	require.Len(t, sums.ByModel, 2)
	require.Equal(t, "large", *sums.ByModel[0].Model)
	require.EqualValues(t, 2, sums.ByModel[0].Calls)

	// The usage of a user outlives the session.
	today := time.Now().UTC().Truncate(24 * time.Hour)
	report := func(group domain.UsageGroup) domain.UsageReport {
		report, err := accounts.New(db.DB).Usage(t.Context(), domain.UsageQuery{
			UserID: user.ID,
			From:   today.AddDate(0, 0, -1),
			To:     today.AddDate(0, 0, 2),
			Groups: []domain.UsageGroup{group},
			Limit:  10,
		})
		require.NoError(t, err)

		return report
	}
	before := report(domain.UsageByModel)
	require.Equal(t, sums.UsageSums, before.Total)
	require.Equal(t, sums.ByModel, before.Items)
	third, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `UPDATE session_usage SET session_id = $1`, third.ID)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `UPDATE sessions SET solution_id = 'web-shop' WHERE id = $1`, third.ID)
	require.NoError(t, err)

	shop := report(domain.UsageBySolution).Items
	require.Len(t, shop, 1)
	require.Equal(t, "web-shop", *shop[0].SolutionID)
	require.NoError(t, db.DeleteSession(t.Context(), third.ID))
	require.NoError(t, db.PurgeSession(t.Context(), third.ID))
	require.Equal(t, before, report(domain.UsageByModel))
	require.Equal(t, shop, report(domain.UsageBySolution).Items)
	_, err = db.Pool.Exec(t.Context(), `UPDATE deleted_usage SET day = day - 900`)
	require.NoError(t, err)
	pruned, err := accounts.New(db.DB).PruneUsage(t.Context(), 800*24*time.Hour, 500)
	require.NoError(t, err)
	require.EqualValues(t, 2, pruned)

	_, err = db.Pool.Exec(t.Context(), `UPDATE chats SET model = NULL WHERE id = $1`, chat)
	require.NoError(t, err)
	model, err = db.ChatModel(t.Context(), session.ID, domain.ChatID(chat))
	require.NoError(t, err)
	require.Empty(t, model)
}
