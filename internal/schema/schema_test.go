package schema_test

import (
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/internal/schema"
	"everloop/internal/testkit"
)

func notes(migrations ...string) schema.Schema {
	files := fstest.MapFS{}
	for _, name := range migrations {
		files["migrations/"+name+".sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE notes.t_" + name + " (id int);")}
	}

	return schema.Schema{Name: "notes", Lock: 7, Files: files}
}

// A database of a build before the baseline is refused, and stays as it is.
func TestSchema_Migrate_beforeTheBaseline(t *testing.T) {
	t.Parallel()

	url := testkit.Postgres(t)
	require.NoError(t, notes("00001_old", "00002_old").Migrate(t.Context(), url))

	released := notes("00200_baseline", "00201_next")
	require.ErrorIs(t, released.Migrate(t.Context(), url), schema.ErrUnreleased)
	require.ErrorContains(t, released.Migrate(t.Context(), url), "schema notes has version 2")
	require.ErrorIs(t, released.MigrateTo(t.Context(), testkit.Postgres(t), 100), schema.ErrUnreleased, "the version of a backup")

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })

	var tables int
	require.NoError(
		t,
		conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'notes' AND tablename LIKE 't_%'`).Scan(&tables),
	)
	require.Equal(t, 2, tables)
}

// A process of an earlier version starts on a newer schema, as a deploy needs.
func TestSchema_Migrate_newerDatabase(t *testing.T) {
	t.Parallel()

	url := testkit.Postgres(t)
	require.NoError(t, notes("00200_baseline", "00201_next").Migrate(t.Context(), url))
	require.NoError(t, notes("00200_baseline").Migrate(t.Context(), url))
}
