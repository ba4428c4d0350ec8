package sessions_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

// New sessions get users above the configured base, and never one that was given.
func TestDB_RaiseSandboxUsers(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	next := func() int {
		session, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{})
		require.NoError(t, err)

		return session.SandboxUID
	}
	before := next()

	for range 2 { // each start
		require.NoError(t, db.RaiseSandboxUsers(t.Context(), 1_900_000_000))
	}

	first := next()
	require.Equal(t, 1_900_000_001, first)
	require.Less(t, before, first)
	require.NoError(t, db.RaiseSandboxUsers(t.Context(), 1_900_000_000))
	require.Equal(t, first+1, next(), "a start gives no user twice")
	require.NoError(t, db.RaiseSandboxUsers(t.Context(), 200_000))
	require.Equal(t, first+2, next(), "a lower base does not go back")
	require.NoError(t, db.RaiseSandboxUsers(t.Context(), 2_100_000_000))
	require.Equal(t, 2_100_000_001, next(), "up to the end")
}
