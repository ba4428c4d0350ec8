package apps_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/app"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
	"everloop/service/apps"
)

// The apps of a closed account are not served, and are served again when it is opened.
func TestStore_LiveApp_closedAccount(t *testing.T) {
	t.Parallel()

	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	exec := func(sql string, args ...any) {
		t.Helper()

		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	served := func() bool {
		t.Helper()

		copyID, err := apps.NewStore(db.DB).LiveApp(t.Context(), "a")
		if err == nil {
			require.Equal(t, "copy", copyID)
			return true
		}

		require.Equal(t, domain.NotFound, domain.AsError(err).Kind)
		require.Equal(t, domain.AsError(app.NotFound()).Code, domain.AsError(err).Code)

		return false
	}

	exec(`
		INSERT INTO apps (id, owner_id, session_id, working_dir, name, status, copy_id)
		VALUES ('a', $1, 's', 'd', 'n', 'live', 'copy')`, ann.ID)
	require.True(t, served())
	exec(`UPDATE users SET disabled_at = now() WHERE id = $1`, ann.ID)
	require.False(t, served())
	exec(`UPDATE users SET disabled_at = NULL WHERE id = $1`, ann.ID)
	require.True(t, served())
	require.NoError(t, accounts.New(db.DB).DeleteUser(t.Context(), ann.ID))
	require.False(t, served())
}
