package pg_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/infra/postgres"
	"everloop/internal/testkit"
)

func TestDB_InTxAsync(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 1})
	_, err := db.Pool.Exec(ctx, `CREATE TABLE notes (id int PRIMARY KEY)`)
	require.NoError(t, err)

	waits := func() (setting string) {
		require.NoError(t, db.Pool.QueryRow(ctx, `SHOW synchronous_commit`).Scan(&setting))
		return setting
	}

	var within string

	require.NoError(t, db.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(`INSERT INTO notes VALUES (1)`)
		batch.Queue(`SHOW synchronous_commit`).QueryRow(func(row pgx.Row) error { return row.Scan(&within) })
	}))
	require.Equal(t, "off", within)
	require.Equal(t, "on", waits(), "other transactions of the connection wait for the disk")

	require.Error(t, db.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(`INSERT INTO notes VALUES (2)`)
		batch.Queue(`INSERT INTO notes VALUES (1)`)
	}))

	var left int
	require.NoError(t, db.Pool.QueryRow(ctx, `SELECT count(*) FROM notes`).Scan(&left), "the pool goes on after a failure")
	require.Equal(t, 1, left, "all of it or nothing")
	require.Equal(t, "on", waits())
}
