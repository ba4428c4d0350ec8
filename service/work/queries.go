package work

import (
	"everloop/infra/postgres/sessions"
	"everloop/infra/temporal"
)

// chatWait are the columns of what the session row s waits for. asked is since when its
// oldest question is open.
const chatWait = `
	CASE WHEN w.reason IN ('question', 'permission') THEN 'user' WHEN w.reason IN ('model', 'model_unavailable', 'rate_limit') THEN 'model'
	     WHEN w.reason = 'worker_missing' THEN 'worker' WHEN w.reason IN ('child', 'slot') THEN 'run' WHEN w.reason = 'budget' THEN 'user'
	     ELSE '' END,
	CASE WHEN w.reason IN ('question', 'permission', 'budget') THEN s.owner_id
	     WHEN w.reason IN ('model', 'model_unavailable', 'rate_limit') THEN coalesce(c.model, s.model, '')
	     WHEN w.reason IN ('child', 'slot') THEN coalesce((
	         SELECT 'fork/' || l.chat_id || '/' || l.id FROM loops l WHERE l.chat_id = c.id AND l.state <> 'ended' ORDER BY l.id
	             LIMIT 1), '')
	     ELSE '' END,
	CASE WHEN w.reason IN ('question', 'permission') THEN (SELECT min(q.asked_at) FROM questions q WHERE q.session_id = s.id
	    AND q.state = 'open')
	     WHEN w.reason IN ('model_unavailable', 'rate_limit') THEN c.model_faults_since
	     WHEN w.reason IN ('queued', 'worker_missing') THEN coalesce((
	         SELECT min(i.created_at) FROM inbox i WHERE i.session_id = s.id AND i.state = 'queued'), c.started_at)
	     ELSE c.started_at END,
	CASE WHEN w.reason IN ('model_unavailable', 'rate_limit') THEN c.model_retry_at END`

// carriedWait is chatWait of a run that waits for the chat of the session s: on its
// owner if that does, else on the session's run.
const carriedWait = `
	CASE WHEN s.id IS NULL THEN '' WHEN w.reason IN ('question', 'permission', 'budget') THEN 'user' ELSE 'run' END,
	CASE WHEN s.id IS NULL THEN '' WHEN w.reason IN ('question', 'permission', 'budget') THEN s.owner_id ELSE 'session/' || s.id END,
	CASE WHEN w.reason IN ('question', 'permission') THEN (SELECT min(q.asked_at) FROM questions q WHERE q.session_id = s.id
	    AND q.state = 'open')
	     ELSE c.started_at END,
	c.model_retry_at`

// waitingOf joins what the session s waits for as w.reason.
const waitingOf = ` LEFT JOIN LATERAL (SELECT` + sessions.ComputedWaiting + ` AS reason) w ON s.id IS NOT NULL `

const (
	plain    = `'none', '', '', NULL::timestamptz, NULL::timestamptz` // no wait is recorded
	noDetail = `''`
	working  = `CASE WHEN NOT EXISTS (SELECT 1 FROM workers k WHERE k.seen_at > now() - interval '20 seconds') THEN 'worker_missing'
		ELSE 'none' END,
	'worker', '', NULL::timestamptz, NULL::timestamptz` // work of a worker, whichever there is
)

// issueRunOwner is whose the issue run r of the agent a is: its owner is written when it
// begins, and is that of the agent.
const issueRunOwner = `coalesce(nullif(r.owner_id, ''), a.owner_id, '')`

// jobs read work by the ids $1: the workflow, whether it is open, its status, what it is
// part of, since when it exists, its session, owner and detail, and what it waits for.
var jobs = map[string]string{
	"chat": `
		SELECT 'session/' || s.id, s.active_chat_id IS NOT NULL OR coalesce(c.state IN ('running', 'parked'), false),
		    coalesce(c.state, 'none'), '',
		       coalesce(c.created_at, s.created_at), s.id, s.owner_id, ` + noDetail + `, coalesce(w.reason, 'none'), ` + chatWait + `
		FROM   sessions s
		LEFT   JOIN LATERAL (SELECT * FROM chats c WHERE c.session_id = s.id ORDER BY (c.id = s.active_chat_id) DESC NULLS LAST,
		    c.id DESC LIMIT 1) c ON true ` +
		waitingOf + `
		WHERE  s.id = ANY ($1) AND s.deleted_at IS NULL`,
	"fork": `
		SELECT 'fork/' || l.chat_id || '/' || l.id, l.state <> 'ended', l.state, 'session/' || l.session_id, l.created_at,
		    l.session_id, s.owner_id, l.id,
		       CASE l.state WHEN 'queued' THEN 'slot' WHEN 'waiting' THEN 'question' ELSE 'none' END,
		       CASE l.state WHEN 'queued' THEN 'run' WHEN 'waiting' THEN 'user' ELSE '' END,
		       CASE l.state WHEN 'queued' THEN 'session/' || l.session_id WHEN 'waiting' THEN s.owner_id ELSE '' END,
		       CASE l.state WHEN 'queued' THEN l.created_at WHEN 'waiting' THEN (
		           SELECT min(q.asked_at) FROM questions q WHERE q.session_id = l.session_id AND q.loop_id = l.id AND q.state = 'open') END,
		       NULL::timestamptz
		FROM   loops l JOIN sessions s ON s.id = l.session_id WHERE l.id = ANY ($1)`,
	"task": `
		SELECT 'task/' || b.id, b.status = 'running', b.status, 'session/' || b.session_id, b.started_at, b.session_id, s.owner_id,
		       CASE WHEN b.kind = 'agent' THEN coalesce(l.id, '') ELSE '' END,
		       CASE WHEN l.state = 'waiting' THEN 'question' WHEN l.state = 'queued' THEN 'slot' ELSE 'none' END,
		       CASE WHEN l.state = 'waiting' THEN 'user' WHEN l.state = 'queued' THEN 'run' ELSE '' END,
		       CASE WHEN l.state = 'waiting' THEN s.owner_id WHEN l.state = 'queued' THEN 'session/' || b.session_id ELSE '' END,
		       CASE WHEN l.state = 'waiting' THEN (
		           SELECT min(q.asked_at) FROM questions q WHERE q.session_id = l.session_id AND q.loop_id = l.id AND q.state = 'open') END,
		       NULL::timestamptz
		FROM   background_tasks b JOIN sessions s ON s.id = b.session_id LEFT JOIN loops l ON l.task_id = b.id AND l.background
		WHERE  b.id = ANY ($1)`,
	"compaction": `
		SELECT 'compact/' || k.id, k.state = 'running', k.state, 'session/' || k.session_id, k.created_at, k.session_id, s.owner_id,
		    ` + noDetail + `, ` + working + `
		FROM   compactions k JOIN sessions s ON s.id = k.session_id WHERE k.id = ANY ($1)`,
	"replay": `
		SELECT 'replay/' || r.session_id, r.status = 'playing' OR r.files_owed, r.status, '', r.started_at, r.session_id, s.owner_id,
		    ` + noDetail + `, ` + working + `
		FROM   replays r JOIN sessions s ON s.id = r.session_id WHERE r.session_id = ANY ($1)`,
	"history": `
		SELECT 'history/' || h.session_id || '/' || h.id, h.state = 'running', h.state, 'session/' || h.session_id, h.created_at,
		    h.session_id, s.owner_id,
		       h.kind, ` + working + `
		FROM   history_operations h JOIN sessions s ON s.id = h.session_id WHERE h.id = ANY ($1)`,
	"import": `
		SELECT 'import/' || i.session_id, i.state = 'running', i.state, '', i.changed_at, i.session_id, i.owner_id,
		    ` + noDetail + `, ` + working + `
		FROM   imports i WHERE i.session_id = ANY ($1)`,
	"deletion": `
		SELECT 'delete/' || s.id, true, 'deleted', '', s.deleted_at, s.id, s.owner_id, ` + noDetail + `, ` + working + `
		FROM   sessions s WHERE s.id = ANY ($1) AND s.deleted_at IS NOT NULL`,
	"schedule": `
		SELECT 'schedule-run/' || r.id, r.state <> 'ended', CASE WHEN r.state = 'ended' THEN r.status
		    ELSE r.state END, t.id, r.triggered_at,
		       coalesce(r.session_id, ''), t.owner_id, ` + noDetail + `,
		       CASE WHEN r.state = 'waiting' THEN 'queued' ELSE coalesce(w.reason, 'none') END, ` + carriedWait + `
		FROM   scheduled_runs r JOIN scheduled_tasks t ON t.id = r.task_id
		LEFT   JOIN sessions s ON s.id = r.session_id AND s.deleted_at IS NULL LEFT JOIN chats c ON c.id = r.chat_id ` + waitingOf + `
		WHERE  r.id = ANY ($1)`,
	"trigger": `
		SELECT 'trigger/' || t.id || '/' || d.id, d.outcome IS NULL, coalesce(d.outcome, 'pending'), t.id, d.created_at,
		    coalesce(d.session_id, ''), t.owner_id, ` + noDetail + `, ` + working + `
		FROM   trigger_deliveries d JOIN triggers t ON t.id = d.trigger_id WHERE d.id = ANY ($1)`,
	"issue": `
		SELECT 'issue-run/' || r.id, r.finished_at IS NULL, r.status, r.issue_id, r.created_at, coalesce(r.session_id, ''),
		    ` + issueRunOwner + `, ` + noDetail + `,
		       CASE WHEN r.status = 'queued' THEN 'queued' ELSE coalesce(w.reason, 'none') END, ` + carriedWait + `
		FROM   issue_runs r LEFT JOIN agent_instances a ON a.id = r.agent_id
		LEFT   JOIN sessions s ON s.id = r.session_id AND s.deleted_at IS NULL LEFT JOIN chats c ON c.id = r.chat_id ` + waitingOf + `
		WHERE  r.id = ANY ($1)`,
	"dag": `
		SELECT 'dag/' || r.solution_id || '/' || r.id, r.finished_at IS NULL, r.status,
		       CASE WHEN r.parent_run IS NULL THEN r.solution_id
		            ELSE (SELECT 'dag/' || p.solution_id || '/' || p.id FROM dag_runs p WHERE p.id = r.parent_run) END,
		       r.created_at, '', r.owner_id, ` + noDetail + `, coalesce(u.reason, 'none'),
		       CASE u.reason WHEN 'timer' THEN 'time' WHEN 'question' THEN 'user' WHEN 'permission' THEN 'user' WHEN 'child' THEN 'run'
		           ELSE '' END,
		       CASE u.reason WHEN 'question' THEN r.owner_id WHEN 'permission' THEN r.owner_id WHEN 'child' THEN coalesce(u.run, '')
		           ELSE '' END,
		       u.since, u.wake_at
		FROM   dag_runs r
		LEFT   JOIN LATERAL (
			-- What needs a person comes first, then what works, then what waits for its time.
			SELECT n.started_at AS since, n.due_at AS wake_at,
			       CASE WHEN c.state = 'parked' AND c.waiting_reason = 'permission' THEN 'permission'
			           WHEN c.state = 'parked' THEN 'question'
			            WHEN n.status = 'running' AND (n.session_id IS NOT NULL OR n.child_id IS NOT NULL) THEN 'child'
			            WHEN n.status = 'waiting' THEN 'timer' WHEN n.status = 'ready' THEN 'queued' ELSE 'none' END AS reason,
			       coalesce('session/' || n.session_id, (SELECT 'dag/' || k.solution_id || '/' || k.id FROM dag_runs k
			           WHERE k.id = n.child_id)) AS run
			FROM   dag_run_nodes n LEFT JOIN chats c ON c.id = n.chat_id
			WHERE  n.run_id = r.id AND NOT n.superseded AND n.status IN ('ready', 'running', 'waiting')
			ORDER  BY c.state IS NOT DISTINCT FROM 'parked' DESC, n.status = 'running' DESC, n.item DESC, n.id LIMIT 1) u ON true
		WHERE  r.id = ANY ($1)`,
}

// open lists the ids of work that should have had a workflow for some seconds, after the
// id $1.
var open = map[string]string{
	"chat": `
		SELECT c.session_id FROM chats c JOIN sessions s ON s.id = c.session_id AND s.deleted_at IS NULL
		WHERE  c.state = 'running' AND c.started_at < now() - interval '10 seconds' AND c.session_id > $1 ORDER BY c.session_id LIMIT $2`,
	"compaction": `
		SELECT k.id FROM compactions k JOIN sessions s ON s.id = k.session_id AND s.deleted_at IS NULL
		WHERE  k.state = 'running' AND k.chat_id IS NULL AND k.created_at < now() - interval '10 seconds' AND k.id > $1
		ORDER  BY k.id LIMIT $2`,
	"dag": `
		SELECT id FROM dag_runs WHERE finished_at IS NULL AND created_at < now() - interval '10 seconds' AND id > $1 ORDER BY id LIMIT $2`,
	"deletion": `
		SELECT id FROM sessions WHERE deleted_at < now() - interval '10 seconds' AND id > $1 ORDER BY id LIMIT $2`,
	"history": `
		SELECT h.id FROM history_operations h JOIN sessions s ON s.id = h.session_id AND s.deleted_at IS NULL
		WHERE  h.state = 'running' AND h.created_at < now() - interval '10 seconds' AND h.id > $1 ORDER BY h.id LIMIT $2`,
	"import": `
		SELECT session_id FROM imports
		WHERE  state = 'running' AND changed_at < now() - interval '10 seconds' AND session_id > $1 ORDER BY session_id LIMIT $2`,
	"issue": `
		SELECT id FROM issue_runs
		WHERE  status IN ('dispatched', 'running') AND dispatched_at < now() - interval '10 seconds' AND id > $1 ORDER BY id LIMIT $2`,
	"replay": `
		SELECT session_id FROM replays
		WHERE  (status = 'playing' OR files_owed) AND started_at < now() - interval '10 seconds' AND session_id > $1
		    ORDER BY session_id LIMIT $2`,
	"schedule": `
		SELECT id FROM scheduled_runs
		WHERE  state = 'running' AND triggered_at < now() - interval '10 seconds' AND id > $1 ORDER BY id LIMIT $2`,
	"trigger": `
		SELECT id FROM trigger_deliveries
		WHERE  outcome IS NULL AND due_at < now() - interval '10 seconds' AND id > $1 ORDER BY id LIMIT $2`,
	"task": `
		SELECT id FROM background_tasks
		WHERE  status = 'running' AND kind IN ('shell', 'agent') AND started_at < now() - interval '10 seconds' AND id > $1 ORDER BY id
		    LIMIT $2`,
}

// subjects read the session, the owner, the solution and the parent of the work $1, for temporal.Subjects.
var subjects = map[string]string{
	temporal.SubjectSession: `SELECT id, owner_id, coalesce(solution_id, ''), parent_run FROM sessions WHERE id = $1`,
	"schedule": `
		SELECT coalesce(r.session_id, ''), t.owner_id, coalesce(t.setup->>'solution_id', ''), 'task/' || t.id
		FROM   scheduled_runs r JOIN scheduled_tasks t ON t.id = r.task_id WHERE r.id = $1`,
	"issue": `
		SELECT coalesce(r.session_id, ''), ` + issueRunOwner + `, '', 'issue/' || r.issue_id
		FROM   issue_runs r LEFT JOIN agent_instances a ON a.id = r.agent_id WHERE r.id = $1`,
	"dag": `
		SELECT '', r.owner_id, r.solution_id, coalesce('dag/' || p.solution_id || '/' || p.id, r.started_by, '')
		FROM   dag_runs r LEFT JOIN dag_runs p ON p.id = r.parent_run WHERE r.id = $1`,
	"trigger": `
		SELECT coalesce(d.session_id, ''), t.owner_id, '', 'trigger/' || t.id
		FROM   trigger_deliveries d JOIN triggers t ON t.id = d.trigger_id WHERE d.id = $1`,
}
