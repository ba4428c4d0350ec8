package pg

// UnfinishedRuns starts a query: unfinished are the runs of the production solution $1, and
// the subflows in them, that are not over or have yet to stop what their nodes started.
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

// OpenUnitsOf returns the units n of a run that are not over, with their chats c. The units of
// a subflow stand for the unit that runs it.
func OpenUnitsOf(runID string) string {
	return `
		FROM   (
			WITH RECURSIVE subflows AS (
				SELECT ` + runID + ` AS id
				UNION ALL
				SELECT m.child_id FROM subflows JOIN dag_run_nodes m ON m.run_id = subflows.id
				WHERE  m.child_id IS NOT NULL AND NOT m.superseded AND m.status = 'running')
			SELECT id FROM subflows) f
		JOIN   dag_run_nodes n ON n.run_id = f.id LEFT JOIN chats c ON c.id = n.chat_id
		WHERE  NOT n.superseded AND n.status IN ('ready', 'running', 'waiting')
		AND    NOT (n.item = -1 AND n.status = 'running' AND n.session_id IS NULL AND n.child_id IS NULL)
		AND    NOT (n.child_id IS NOT NULL AND EXISTS (
			SELECT 1 FROM dag_run_nodes o
			WHERE  o.run_id = n.child_id AND NOT o.superseded AND o.status IN ('ready', 'running', 'waiting')))`
}

// ShownRunStatus is the status of the run r as clients see it: waiting when none of its open
// units moves. It is what the function waits of service/dagruns finds.
var ShownRunStatus = `
	CASE WHEN r.status = 'running' AND coalesce((SELECT bool_and(` + ReasonOfUnit + ` <> 'none')` + OpenUnitsOf("r.id") + `), false)
	     THEN 'waiting' ELSE r.status END`

// ReasonOfUnit says why a unit n with the chat c does not move; none: it does.
const ReasonOfUnit = `
	CASE WHEN n.status = 'ready' THEN 'queued' WHEN n.status = 'waiting' THEN 'timer'
	     WHEN n.status = 'running' AND c.state = 'parked' THEN
	          CASE WHEN n.phase = 'approval' THEN 'approval' WHEN c.waiting_reason = 'permission' THEN 'permission' ELSE 'question' END
	     ELSE 'none' END`
