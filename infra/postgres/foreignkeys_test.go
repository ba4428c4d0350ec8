package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/infra/postgres/pgtest"
)

// A foreign key without an index on its own side costs a walk of the whole table for
// each deleted row of the other side. Rows of users are never deleted.
func TestMigrations_everyForeignKeyHasAnIndex(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	rows, err := db.Pool.Query(t.Context(), `
		SELECT c.conrelid::regclass || ' (' || string_agg(a.attname, ', ') || ')'
		FROM   pg_constraint c
		CROSS  JOIN LATERAL unnest(c.conkey) AS key (attnum)
		JOIN   pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = key.attnum
		WHERE  c.contype = 'f' AND c.connamespace = 'public'::regnamespace AND c.confrelid <> 'users'::regclass
		AND    NOT EXISTS (
			SELECT 1 FROM pg_index i
			WHERE  i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1] AND i.indisvalid
			AND    (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) = '(' || a.attname || ' IS NOT NULL)'))
		GROUP  BY c.oid, c.conrelid ORDER BY 1`)
	require.NoError(t, err)
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, missing, "foreign keys without an index")
}
