package identity_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
	"everloop/infra/secrets"
	"everloop/internal/testkit"
)

// Each table ends as docs/operators/disk.md#what-grows says.
func TestService_Clean(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	box, err := secrets.NewBox(strings.Repeat("k", 32))
	require.NoError(t, err)
	service, err := identity.Open(t.Context(), identity.Config{
		DatabaseURL: database, Box: box, Issuer: "http://id.example", TokenTTL: 10 * time.Minute, SessionTTL: time.Hour,
		KeyRotation: time.Hour, UserGuesses: 5, AddressGuesses: 1000,
		FirstPassword: func() (string, error) { return password, nil },
	})
	require.NoError(t, err)
	t.Cleanup(service.Close)

	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)

	defer conn.Close(context.WithoutCancel(t.Context()))

	// How a row is inserted, and the ages of one that is removed and of one that is kept.
	tables := map[string]struct{ insert, removed, kept string }{
		"personal_tokens": {`
			INSERT INTO identity.personal_tokens (id, user_id, name, hash, sealed, revoked_at)
			SELECT '%age', id, 'token', sha256('%age'), '', now() - interval '%age' FROM identity.users`, "8 days", "6 days"},
		"sessions": {`
			INSERT INTO identity.sessions (id, user_id, cookie_hash, expires_at)
			SELECT '%age', id, sha256('%age'), now() - interval '%age' FROM identity.users`, "2 days", "1 hour"},
		"guesses": {`
			INSERT INTO identity.guesses (key, left_, at) VALUES ('%age', 1, now() - interval '%age')`, "2 hours", "1 minute"},
		"used_challenges": {
			`
			INSERT INTO identity.used_challenges (hash, at) VALUES (sha256('%age'), now() - interval '%age')`,
			"2 hours", "1 minute",
		},
		"audit": {`
			INSERT INTO identity.audit (action, created_at) VALUES ('test', now() - interval '%age')`, "366 days", "364 days"},
	}
	for table, c := range tables {
		execute(t, database, `DELETE FROM identity.`+table)
		execute(t, database, strings.ReplaceAll(c.insert, "%age", c.removed))
		execute(t, database, strings.ReplaceAll(c.insert, "%age", c.kept))
	}

	execute(t, database, `
		INSERT INTO identity.personal_tokens (id, user_id, name, hash, sealed, created_at)
		SELECT 'held', id, 'token', sha256('held'), '', now() - interval '900 days' FROM identity.users`)
	execute(t, database, `
		INSERT INTO identity.sessions (id, user_id, cookie_hash, expires_at, last_used_at)
		SELECT 'unused ' || age, id, sha256(age::bytea), now() + interval '10 days', now() - age::interval
		FROM identity.users, unnest(ARRAY['15 days', '13 days']) AS age`)
	require.NoError(t, service.Clean(t.Context()))

	var ended []string
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT array_agg(id || ', ' || ended_by) FROM identity.sessions WHERE ended_at IS NOT NULL`).Scan(&ended))
	require.Equal(t, []string{"unused 15 days, not used"}, ended)
	execute(t, database, `DELETE FROM identity.sessions WHERE id LIKE 'unused%'`)

	for table := range tables {
		want := 1
		if table == "personal_tokens" {
			want = 2 // one that was not revoked
		}

		var rows int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM identity.`+table).Scan(&rows))
		require.Equal(t, want, rows, table)
	}
}
