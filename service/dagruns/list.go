package dagruns

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/domain/dagrun"
	"everloop/infra/postgres/pg"
)

// QueryDAGRuns lists the runs that a query selects: a page, and how many there are.
func (s *Store) QueryDAGRuns(ctx context.Context, q dagrun.Query) (page []dagrun.RunRecord, total int, err error) {
	where, args := conditions(q)

	var batch pgx.Batch
	// The columns of a record are costly: they are read for the runs of the page, not for those
	// that it skips.
	batch.Queue(`
		SELECT `+recordColumns+` FROM (`+pageOf(where)+`) page JOIN dag_runs r ON r.id = page.id
		ORDER  BY r.created_at DESC, r.id DESC`, args).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanRecord)
			return err
		})
	batch.Queue(`SELECT count(*) FROM dag_runs r WHERE `+where, args).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list DAG runs", s.db.Pool.SendBatch(ctx, &batch).Close())
}

func pageOf(where string) string {
	return `SELECT r.id FROM dag_runs r WHERE ` + where + ` ORDER BY r.created_at DESC, r.id DESC LIMIT @limit OFFSET @offset`
}

// conditions returns the conditions of a query on the row r. They name only what the query
// restricts, so that the plan fits the query.
func conditions(q dagrun.Query) (where string, args pgx.NamedArgs) {
	all := []string{"r.owner_id = @owner"}
	args = pgx.NamedArgs{"owner": q.OwnerID, "limit": q.Limit, "offset": q.Offset}
	add := func(condition, name string, value any) {
		all, args[name] = append(all, condition), value
	}

	switch {
	case q.ParentRun != "":
		add("r.parent_run = @parent", "parent", q.ParentRun)
	case q.Trigger == dagrun.TriggerSubflow:
		all = append(all, "r.parent_run IS NOT NULL")
	default:
		all = append(all, "r.parent_run IS NULL")
	}

	if q.Trigger != "" {
		add("r.trigger = @trigger", "trigger", q.Trigger)
	}

	if q.SolutionID != "" {
		add("r.solution_id = @solution", "solution", q.SolutionID)
	}

	if q.CreatedAfter != nil {
		add("r.created_at > @after", "after", *q.CreatedAfter)
	}

	if q.CreatedBefore != nil {
		add("r.created_at < @before", "before", *q.CreatedBefore)
	}

	if len(q.Statuses) > 0 {
		stored, shown := statusesOf(q.Statuses)
		add("r.status = ANY (@statuses)", "statuses", stored)

		if !slices.ContainsFunc(stored, dagrun.Status.Over) {
			all = append(all, "r.finished_at IS NULL") // by the index of open runs
		}

		if shown != "" {
			add("(r.status <> 'running' OR "+pg.ShownRunStatus+" = @shown)", "shown", shown)
		}
	}

	return strings.Join(all, " AND "), args
}

// statusesOf returns the statuses of the rows of some statuses that clients see. Shown is the
// status that clients must see of a row that is running; empty: any.
func statusesOf(asked []dagrun.Status) (stored []dagrun.Status, shown dagrun.Status) {
	running, waiting := slices.Contains(asked, dagrun.Running), slices.Contains(asked, dagrun.Waiting)

	for _, status := range asked {
		if status != dagrun.Waiting {
			stored = append(stored, status)
		}
	}

	switch {
	case running && waiting:
	case running:
		shown = dagrun.Running
	case waiting:
		stored, shown = append(stored, dagrun.Running), dagrun.Waiting
	}

	return stored, shown
}
