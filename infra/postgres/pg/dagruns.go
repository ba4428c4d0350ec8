package pg

// UnfinishedRuns begins a query: unfinished are the runs of the production solution $1, and
// the subflows in them, that are not over or have yet to stop what their nodes began.
const UnfinishedRuns = `
	WITH RECURSIVE tree AS (
		SELECT id FROM dag_runs WHERE solution_id = $1
		UNION
		SELECT r.id FROM dag_runs r JOIN tree t ON r.parent_run = t.id),
	unfinished AS (
		SELECT r.id, r.solution_id, r.depth FROM tree t JOIN dag_runs r ON r.id = t.id
		WHERE  r.finished_at IS NULL
		OR     EXISTS (SELECT 1 FROM dag_run_nodes n WHERE n.run_id = r.id AND n.stop))
	`
