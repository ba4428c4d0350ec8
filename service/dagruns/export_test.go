package dagruns

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain/dagrun"
	"everloop/infra/postgres/pg"
)

// Explain returns the plan of the page of a query.
func Explain(t *testing.T, db *pg.DB, q dagrun.Query) string {
	t.Helper()

	where, args := conditions(q)
	rows, _ := db.Pool.Query(t.Context(), "EXPLAIN "+pageOf(where), args)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)

	return strings.Join(lines, "\n")
}
