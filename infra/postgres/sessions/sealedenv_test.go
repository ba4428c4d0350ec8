package sessions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/postgres/sessions"
	"everloop/infra/secrets"
	"everloop/internal/testkit"
	played "everloop/service/recordings/replay"
)

func sealing(t *testing.T, url, key string) *postgres.DB {
	t.Helper()

	box, err := secrets.NewBox(strings.Repeat(key, 32))
	require.NoError(t, err)
	db, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 4, ConnectTimeout: time.Minute, Box: box})
	require.NoError(t, err)
	t.Cleanup(db.Close)

	return db
}

// rawEnvs returns what the table holds, as a dump of it shows.
func rawEnvs(t *testing.T, db *postgres.DB) (all string) {
	t.Helper()
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(env::text, E'\n'), '') FROM sessions`).Scan(&all))

	return all
}

func TestSessionEnv_isSealedInTheDatabase(t *testing.T) {
	t.Parallel()
	url := testkit.Postgres(t)
	db := sealing(t, url, "a")
	ann := pgtest.User(t, db, "ann", false)
	env := domain.SessionEnv{"API_TOKEN": "sk-live-1", "EMPTY": ""}
	made, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Env: env})
	require.NoError(t, err)
	require.Equal(t, env, made.Env)
	read, err := db.OwnSession(t.Context(), ann, made.ID)
	require.NoError(t, err)
	require.Equal(t, env, read.Env)
	atWork, err := sessions.AtWork(t.Context(), db.Pool, made.ID)
	require.NoError(t, err)
	require.Equal(t, env, atWork.Env)

	changed, err := db.SetSessionEnv(t.Context(), ann, made.ID, map[string]string{"API_TOKEN": "sk-live-2"})
	require.NoError(t, err)
	require.Equal(t, domain.SessionEnv{"API_TOKEN": "sk-live-2"}, changed.Env)
	require.NotContains(t, rawEnvs(t, db), "sk-live")
	require.NotContains(t, rawEnvs(t, db), "API_TOKEN")

	// A replay of an own session gets the environment, one of another user's none.
	bob := pgtest.User(t, db, "bob", false)
	for owner, want := range map[string]domain.SessionEnv{ann.ID: changed.Env, bob.ID: {}} {
		copied := domain.NewID()
		require.NoError(t, played.NewStore(db.DB, nil).CreateReplay(t.Context(), replay.NewReplay{
			SessionID: domain.SessionID(
				copied,
			),
			OwnerID:  owner,
			BranchID: domain.BranchID(domain.NewID()),
			Source:   domain.Session{ID: made.ID},
			Speed:    1,
			Script:   "x",
		}))
		got, err := sessions.AtWork(t.Context(), db.Pool, domain.SessionID(copied))
		require.NoError(t, err)
		require.Equal(t, want, got.Env)
	}

	none, err := db.SetSessionEnv(t.Context(), ann, made.ID, nil)
	require.NoError(t, err)
	require.Equal(t, domain.SessionEnv{}, none.Env)
}

func TestSessionEnv_anotherKey(t *testing.T) {
	t.Parallel()
	url := testkit.Postgres(t)
	db := sealing(t, url, "a")
	ann := pgtest.User(t, db, "ann", false)
	made, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Env: domain.SessionEnv{"A": "sk-live-1"}})
	require.NoError(t, err)
	_, err = sealing(t, url, "b").OwnSession(t.Context(), ann, made.ID)
	require.ErrorIs(t, err, secrets.ErrUnreadable)
	require.ErrorContains(t, err, "environment of a session")
	unsealed, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 2, ConnectTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(unsealed.Close)
	_, err = unsealed.OwnSession(t.Context(), ann, made.ID)
	require.ErrorContains(t, err, "no encryption key")
}
