package dagruns_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/dagrun"
	"everloop/infra/postgres/pgtest"
	"everloop/service/dagruns"
)

func TestStore_QueryDAGRuns(t *testing.T) {
	t.Parallel()
	db, store, user, set := newStore(t)
	other := pgtest.User(t, db, "other", true)
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p1', $1, 'one'), ('p2', $1, 'two'), ('p3', $2, 'three')`,
		user.ID, other.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, parent_run, created_at, finished_at) VALUES
		('a', 'p1', $1, 1, 'api', 'completed', '{}', NULL, $3, $3), ('b', 'p2', $1, 1, 'api', 'running', '{}', NULL, $4, NULL),
		('c', 'p1', $1, 1, 'api', 'running', '{}', NULL, $5, NULL), ('d', 'p2', $1, 1, 'subflow', 'failed', '{}', 'c', $5, $5),
		('e', 'p3', $2, 1, 'api', 'failed', '{}', NULL, $5, $5)`,
		user.ID, other.ID, noon, noon.Add(time.Hour), noon.Add(2*time.Hour))
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status) VALUES ('n', 'b', 'p2', 'pause', 'waiting')`)

	at := func(hours int) *time.Time {
		at := noon.Add(time.Duration(hours) * time.Hour)
		return &at
	}

	for name, c := range map[string]struct {
		query dagrun.Query
		total int
		ids   []string
	}{
		"all":              {dagrun.Query{}, 3, []string{"c", "b", "a"}},
		"page":             {dagrun.Query{Limit: 1, Offset: 1}, 3, []string{"b"}},
		"waiting":          {dagrun.Query{Statuses: []dagrun.Status{dagrun.Waiting}}, 1, []string{"b"}},
		"running":          {dagrun.Query{Statuses: []dagrun.Status{dagrun.Running, dagrun.Completed}}, 2, []string{"c", "a"}},
		"open":             {dagrun.Query{Statuses: []dagrun.Status{dagrun.Running, dagrun.Waiting}}, 2, []string{"c", "b"}},
		"solution":         {dagrun.Query{SolutionID: "p1"}, 2, []string{"c", "a"}},
		"another user's":   {dagrun.Query{SolutionID: "p3"}, 0, nil},
		"time":             {dagrun.Query{CreatedAfter: at(0), CreatedBefore: at(2)}, 1, []string{"b"}},
		"subflows":         {dagrun.Query{Trigger: dagrun.TriggerSubflow}, 1, []string{"d"}},
		"parent":           {dagrun.Query{ParentRun: "c"}, 1, []string{"d"}},
		"parent elsewhere": {dagrun.Query{ParentRun: "e"}, 0, nil},
		"trigger":          {dagrun.Query{Trigger: dagrun.TriggerAPI, Statuses: []dagrun.Status{dagrun.Failed}}, 0, nil},
	} {
		c.query.OwnerID = user.ID
		if c.query.Limit == 0 {
			c.query.Limit = 10
		}

		page, total, err := store.QueryDAGRuns(t.Context(), c.query)
		require.NoError(t, err, name)

		var ids []string
		for _, run := range page {
			ids = append(ids, run.ID)
		}

		require.Equal(t, c.ids, ids, name)
		require.Equal(t, c.total, total, name)
	}

	page, _, err := store.QueryDAGRuns(t.Context(), dagrun.Query{OwnerID: user.ID, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "one", page[0].SolutionName)
}

// Pages and counts of an owner's runs are read by an index, however many runs there are.
func TestStore_QueryDAGRuns_plan(t *testing.T) {
	t.Parallel()
	db, _, user, set := newStore(t)
	other := pgtest.User(t, db, "other", false)

	set(`INSERT INTO prod_solutions (id, owner_id, name) SELECT 'p' || n, $1, 'p' FROM generate_series(0, 99) n`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, created_at, finished_at)
		SELECT lpad(n::text, 8, '0'), 'p' || n % 100, CASE n % 2 WHEN 0 THEN $1 ELSE $2 END, 1, 'api',
		       CASE WHEN n % 7 = 0 THEN 'failed' ELSE 'completed' END, '{}', now() - n * interval '1 second', now()
		FROM   generate_series(1, 20000) n`, user.ID, other.ID)
	set(`ANALYZE dag_runs`)

	for name, q := range map[string]dagrun.Query{
		"all": {}, "status": {Statuses: []dagrun.Status{dagrun.Failed, dagrun.Waiting}}, "deep": {Offset: 5000},
	} {
		q.OwnerID, q.Limit = user.ID, 50
		plan := dagruns.Explain(t, db.DB, q)
		require.Contains(t, plan, "dag_runs_owner", name)
		require.NotContains(t, plan, "Seq Scan on dag_runs", name)
		require.NotContains(t, plan, "Sort", name)
	}
}
