package accounts_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
)

func rule(t *testing.T, pattern string) domain.NetworkRule {
	t.Helper()

	parsed, err := domain.ParseNetworkRule(pattern)
	require.NoError(t, err)

	return parsed
}

func TestSetNetworkRule(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann, ben := pgtest.User(t, db, "ann", false).ID, pgtest.User(t, db, "ben", false).ID
	first, err := accounts.New(db.DB).SetNetworkRule(t.Context(), ann, rule(t, "*.Example.org"), domain.PermissionAllow)
	require.NoError(t, err)
	again, err := accounts.New(db.DB).SetNetworkRule(t.Context(), ann, rule(t, "*.example.org."), domain.PermissionDeny)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID, "one rule for a domain")
	rules, err := accounts.New(db.DB).NetworkRules(t.Context(), ann)
	require.NoError(t, err)
	require.Len(t, rules, 1)
	require.Equal(t, domain.PermissionDeny, rules[0].Decision)

	require.Equal(t, "network_rule_not_found", domain.AsError(accounts.New(db.DB).DeleteNetworkRule(t.Context(), ben, first.ID)).Code)

	for i := range domain.MaxNetworkRules - 1 {
		_, err := accounts.New(db.DB).
			SetNetworkRule(t.Context(), ann, rule(t, fmt.Sprintf("host%d.example.org", i)), domain.PermissionAllow)
		require.NoError(t, err)
	}

	_, err = accounts.New(db.DB).SetNetworkRule(t.Context(), ann, rule(t, "one.more.example.org"), domain.PermissionAllow)
	require.Equal(t, "network_rule_limit", domain.AsError(err).Code)
	_, err = accounts.New(db.DB).SetNetworkRule(t.Context(), ann, rule(t, "*.example.org"), domain.PermissionAllow)
	require.NoError(t, err, "one that is there can be changed")
	require.NoError(t, accounts.New(db.DB).DeleteNetworkRule(t.Context(), ann, first.ID))
}

func TestNetworkSession(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	made, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Setup: domain.SessionSetup{Network: domain.NetworkNone}})
	require.NoError(t, err)
	_, err = accounts.New(db.DB).SetNetworkRule(t.Context(), ann.ID, rule(t, "example.org:8443"), domain.PermissionAllow)
	require.NoError(t, err)
	session, planning, rules, err := db.NetworkSession(t.Context(), made.ID)
	require.NoError(t, err)
	require.False(t, planning)
	require.Equal(t, domain.NetworkNone, session.Setup.Network)
	require.Equal(
		t,
		[]domain.PermissionRule{{Tool: domain.NetworkTool, Pattern: "example.org:8443", Decision: domain.PermissionAllow}},
		rules,
	)

	_, err = db.Pool.Exec(t.Context(), `
		WITH chat AS (INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
		              SELECT 'chat-1', id, active_branch_id, 'user', 'planning', 'running' FROM sessions WHERE id = $1 RETURNING id)
		UPDATE sessions SET active_chat_id = chat.id FROM chat WHERE sessions.id = $1`, made.ID)
	require.NoError(t, err)
	_, planning, _, err = db.NetworkSession(t.Context(), made.ID)
	require.NoError(t, err)
	require.True(t, planning, "while its chat makes a plan")

	_, _, _, err = db.NetworkSession(t.Context(), "nothing")
	require.Equal(t, "session_not_found", domain.AsError(err).Code)
}
