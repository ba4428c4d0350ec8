package dagruns_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/dagrun"
	"everloop/infra/postgres/pgtest"
	"everloop/service/dagruns"
)

// However many runs have ended since the last time, as many are removed as may be.
func TestStore_PruneDAGRuns(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	store := dagruns.NewStore(db.DB)
	user := pgtest.User(t, db, "owner", false)
	set := func(sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	set(`INSERT INTO prod_solutions (id, owner_id, name) SELECT 'p' || n, $1, 'p' FROM generate_series(1, 3) n`, user.ID)

	// Of the first solution old ones and too many, of the second as many as are kept and one
	// that is old, of the third nothing that goes: it is under way, or part of another run.
	for _, runs := range []struct {
		solution, since string
		from, to        int
	}{
		{"p1", "91 days", 1, 40},
		{"p1", "1 day", 41, 40 + dagrun.MaxKeptRuns + 60},
		{"p2", "91 days", 1, 1},
		{"p2", "1 day", 2, dagrun.MaxKeptRuns},
		{"p3", "", 1, dagrun.MaxKeptRuns + 60},
	} {
		set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, finished_at)
			SELECT $1::text || lpad(n::text, 6, '0'), $1, $2, 1, 'api', 'completed', '{}', now() - nullif($3, '')::interval
			FROM   generate_series($4::int, $5) n`, runs.solution, user.ID, runs.since, runs.from, runs.to)
	}

	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, parent_run, finished_at)
		VALUES ('child', 'p3', $1, 1, 'subflow', 'completed', '{}', 'p3000001', now() - interval '91 days')`, user.ID)

	removed, err := store.PruneDAGRuns(t.Context(), 75)
	require.NoError(t, err)
	require.EqualValues(t, 75, removed)

	for removed == 75 {
		removed, err = store.PruneDAGRuns(t.Context(), 75)
		require.NoError(t, err)
	}

	left := func(solution string) (n int, first string) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*), min(id) FROM dag_runs WHERE solution_id = $1`, solution).
			Scan(&n, &first))

		return n, first
	}

	n, first := left("p1")
	require.Equal(t, dagrun.MaxKeptRuns, n)
	require.Equal(t, "p1000101", first, "the newest are kept")

	n, first = left("p2")
	require.Equal(t, dagrun.MaxKeptRuns-1, n)
	require.Equal(t, "p2000002", first)

	n, _ = left("p3")
	require.Equal(t, dagrun.MaxKeptRuns+61, n, "runs under way stay, with their parts")
}
