package sessions

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// sessionColumns gives a domain.Session of the row s.
const sessionColumns = stateColumns + `, least(` + tasksSince + `, ` + callsSince + `) AS commands_since, ` + restsSince + ` AS rests_since,
	s.last_end`

// plainColumns are sessionColumns for those who do not ask what commands do, nor how the
// last chat ended.
const plainColumns = stateColumns + `, NULL::timestamptz AS commands_since, s.created_at AS rests_since, NULL::json AS last_end`

const stateColumns = keptColumns + `, ` + noToolServers + ` AS no_tool_servers,
	` + ComputedWaiting + ` AS waiting_reason, ` + computedQueue + ` AS queue_length, ` + replayState + ` AS replay_state`

// tasksSince is the start of the oldest command of the session s that runs in the
// background.
const tasksSince = `(
	SELECT min(b.started_at) FROM background_tasks b
	WHERE  b.session_id = s.id AND b.finished_at IS NULL AND b.status = 'running' AND b.kind = 'shell')`

// callsSince is the start of the oldest tool call that runs, of the session's chat and of
// sub-agents in the background. The call of a sub-agent runs nothing itself.
const callsSince = `(
	SELECT min(t.started_at) FROM tool_calls t
	WHERE  t.status = 'pending' AND t.phase = 'running' AND t.tool_name <> 'Agent' AND t.chat_id IN (
		SELECT s.active_chat_id UNION ALL
		SELECT b.chat_id FROM background_tasks b WHERE b.session_id = s.id AND b.finished_at IS NULL AND b.status = 'running'))`

// restsSince is when the last command in the background, or the newest turn with its tool
// calls, was over: a turn starts when the calls before it have ended.
const restsSince = `greatest(s.created_at,
	(SELECT max(b.finished_at) FROM background_tasks b WHERE b.session_id = s.id),
	(SELECT greatest(e.started_at, (
		SELECT max(t.started_at + t.duration_ms * interval '1 millisecond') FROM tool_calls t WHERE t.entry_id = e.id))
	 FROM   entries e WHERE e.session_id = s.id ORDER BY e.id DESC LIMIT 1))`

// noToolServers says of the row s that no tool server can be meant for it. Whose
// those of its solution are is not asked: it errs to the side of a look.
const noToolServers = `
	NOT (EXISTS (SELECT 1 FROM mcp_servers WHERE scope = 'service')
	     OR EXISTS (SELECT 1 FROM mcp_servers WHERE scope = 'solution' AND solution_id = s.solution_id)
	     OR EXISTS (SELECT 1 FROM mcp_servers WHERE session_id = s.id))`

// WorkColumns select from the session row s what a worker may read of a session that it works
// for. WorkFields scans them.
const WorkColumns = `
	s.id, s.owner_id, s.solution_id, s.biz_role_id, s.primary_skill_id, s.memory_enabled, s.env, s.disable_tools, s.setup, s.sandbox_uid,
	s.assists_solutions, s.workspace_id`

// WorkFields returns where the WorkColumns of a session go.
func WorkFields(s *domain.Session) []any {
	return []any{
		&s.ID,
		&s.OwnerID,
		&s.SolutionID,
		&s.BizRoleID,
		&s.PrimarySkillID,
		&s.MemoryEnabled,
		&s.Env,
		&s.DisableTools,
		&s.Setup,
		&s.SandboxUID,
		&s.AssistsSolutions,
		&s.WorkspaceID,
	}
}

// CreateSession makes a session with its root branch, and the background task of its
// init script.
func (db *Base) CreateSession(ctx context.Context, ownerID string, in domain.NewSession) (domain.Session, error) {
	if in.Env == nil {
		in.Env = domain.SessionEnv{}
	}

	if in.DisableTools == nil {
		in.DisableTools = []string{}
	}

	id := cmp.Or(in.ID, domain.SessionID(domain.NewID()))

	task := ""
	if in.InitScript != "" {
		task = domain.InitTaskID(id)
	}

	args := pgx.NamedArgs{
		"id":         id,
		"owner":      ownerID,
		"branch":     domain.NewID(),
		"intent":     in.Intent,
		"solution":   in.SolutionID,
		"role":       in.BizRoleID,
		"template":   in.TemplateID,
		"skill":      in.PrimarySkillID,
		"model":      in.Model,
		"factory":    in.SoftwareFactory,
		"workspace":  in.WorkspaceID,
		"memory":     in.MemoryEnabled,
		"persistent": in.Persistent,
		"env":        in.Env,
		"disabled":   in.DisableTools,
		"setup":      in.Setup,
		"mode":       in.Mode,
		"class": cmp.Or(
			in.Class,
			domain.ClassChat,
		),
		"parent":  in.ParentRun,
		"task":    task,
		"script":  in.InitScript,
		"title":   domain.InitTaskTitle,
		"command": domain.InitTaskCommand(task),
		"output":  domain.InitTaskOutput(task),
	}
	rows, _ := db.Pool.Query(ctx, `
		WITH s AS (
			INSERT INTO sessions (id, owner_id, intent, solution_id, biz_role_id, template_id, primary_skill_id, model,
			                      software_factory_id, workspace_id, memory_enabled, is_persistent, env, disable_tools, setup, mode,
			                      active_branch_id, intent_from_message, init_task_id, class, parent_run)
			VALUES (@id, @owner, @intent, @solution, @role, @template, @skill, @model, @factory, @workspace, @memory,
			        @persistent, @env, @disabled, @setup, coalesce(nullif(@mode, ''), 'executing'), @branch, @intent = '',
			            nullif(@task, ''), @class, @parent)
			RETURNING *),
		init AS (
			INSERT INTO background_tasks (id, session_id, kind, title, command, script, status, output_path)
			SELECT init_task_id, id, 'shell', @title, @command, @script, 'running', @output FROM s WHERE init_task_id IS NOT NULL),
		root AS (INSERT INTO branches (id, session_id) SELECT active_branch_id, id FROM s)
		SELECT `+sessionColumns+` FROM s`, args)
	made, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])

	return made, pg.Fault("create session", err)
}

// EnsureSession makes the session with the id that the caller has chosen, unless it was
// made before. One that was made and deleted is session_not_found.
func (db *Base) EnsureSession(ctx context.Context, ownerID string, in domain.NewSession) error {
	var deleted bool

	err := db.Pool.QueryRow(ctx, `SELECT deleted_at IS NOT NULL FROM sessions WHERE id = $1
		AND owner_id = $2`, in.ID, ownerID).Scan(&deleted)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		_, err = db.CreateSession(ctx, ownerID, in)
	case err == nil && deleted:
		err = domain.SessionNotFound(in.ID)
	}

	return pg.Fault("make a session", err)
}

// OwnSession reads a session that the caller may change: their own. One that they
// may only see is forbidden, any other does not exist for them.
func (db *Base) OwnSession(ctx context.Context, caller domain.User, id domain.SessionID) (domain.Session, error) {
	session, role, err := db.ReadSession(ctx, caller, id)
	if err == nil && role != domain.ViewerOwner {
		return domain.Session{}, notOwner()
	}

	return session, err
}

// OwnSessionRun is OwnSession for what the session's run is started with, in one statement
// that computes nothing.
func (db *Base) OwnSessionRun(ctx context.Context, caller domain.User, id domain.SessionID) (domain.SessionRun, error) {
	run := domain.SessionRun{SessionID: id}

	err := db.Pool.QueryRow(ctx, `SELECT s.owner_id, coalesce(s.solution_id, ''), s.parent_run, s.model`+visible,
		id, caller.ID, caller.Administrator).
		Scan(&run.OwnerID, &run.SolutionID, &run.ParentRun, &run.Model)

	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return domain.SessionRun{}, domain.SessionNotFound(id)
	case err != nil:
		return domain.SessionRun{}, pg.Fault("read session", err)
	case run.OwnerID != caller.ID:
		return domain.SessionRun{}, notOwner()
	}

	return run, nil
}

func notOwner() *domain.Error {
	return domain.Newf(domain.Forbidden, "forbidden", "only the owner of the session may change it")
}

// SetSessionEnv replaces the environment that the session's tools get.
func (db *Base) SetSessionEnv(ctx context.Context, caller domain.User, id domain.SessionID, env map[string]string) (domain.Session, error) {
	if env == nil {
		env = map[string]string{}
	}

	return db.setSession(ctx, db.Pool, caller, id, "env", domain.SessionEnv(env))
}

// SetSessionPinned pins a session to the top of its owner's list, or lets it go.
func (db *Base) SetSessionPinned(ctx context.Context, caller domain.User, id domain.SessionID, pinned bool) (domain.Session, error) {
	return db.setSession(ctx, db.Pool, caller, id, "is_pinned", pinned)
}

// SetSessionShared opens a session to the eyes of every signed-in user, or
// closes it.
func (db *Base) SetSessionShared(ctx context.Context, caller domain.User, id domain.SessionID, shared bool) (domain.Session, error) {
	return db.setSession(ctx, db.Pool, caller, id, "shared", shared)
}

// SetSessionMemory reports whether the session uses and writes memories.
func (db *Base) SetSessionMemory(ctx context.Context, caller domain.User, id domain.SessionID, enabled bool) (domain.Session, error) {
	return db.setSession(ctx, db.Pool, caller, id, "memory_enabled", enabled)
}

// RenameSession sets the intent and publishes it. From then on the first
// message no longer names the session.
func (s *Store) RenameSession(ctx context.Context, caller domain.User, id domain.SessionID, intent string) (domain.Session, error) {
	var session domain.Session

	err := s.Update(ctx, func(tx *pg.Tx) (err error) {
		if session, err = s.setSession(ctx, tx, caller, id, "intent", intent); err != nil {
			return err
		}

		if _, err = tx.Exec(ctx, `UPDATE sessions SET intent_from_message = false WHERE id = $1`, id); err != nil {
			return err
		}

		return EmitUpdated(ctx, tx, id)
	})

	return session, pg.Fault("rename session", err)
}

// SetSessionMode sets how the agent works on messages that do not say it.
func (db *Base) SetSessionMode(ctx context.Context, caller domain.User, id domain.SessionID, mode domain.Mode) (domain.Session, error) {
	return db.setSession(ctx, db.Pool, caller, id, "mode", mode)
}

// SetSessionSetup changes what the setup names and leaves the rest as it is. The
// next model call goes by it.
func (db *Base) SetSessionSetup(
	ctx context.Context,
	caller domain.User,
	id domain.SessionID,
	setup domain.SessionSetup,
) (domain.Session, error) {
	rows, _ := db.Pool.Query(ctx, `
		UPDATE sessions s SET setup = s.setup || @setup::jsonb, updated_at = now()
		WHERE  s.id = @id AND s.owner_id = @owner AND s.deleted_at IS NULL
		RETURNING `+sessionColumns,
		pgx.NamedArgs{"id": id, "owner": caller.ID, "setup": setup})

	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])
	if errors.Is(err, pgx.ErrNoRows) {
		return session, domain.SessionNotFound(id)
	}

	return session, pg.Fault("change session's setup", err)
}

// setSession changes one column, named by this package and never by a client,
// of a session that the caller owns.
func (db *Base) setSession(
	ctx context.Context,
	q pg.Queryer,
	caller domain.User,
	id domain.SessionID,
	column string,
	value any,
) (domain.Session, error) {
	rows, _ := q.Query(ctx, `
		UPDATE sessions s
		SET    `+column+` = @value, updated_at = now()
		WHERE  s.id = @id AND s.owner_id = @owner AND s.deleted_at IS NULL
		RETURNING `+sessionColumns,
		pgx.NamedArgs{"id": id, "owner": caller.ID, "value": value})

	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = db.OwnSession(ctx, caller, id) // is it hidden, or only another user's?
		if err == nil {
			err = domain.SessionNotFound(id) // it changed its owner in between
		}

		return domain.Session{}, err
	}

	return session, pg.Fault("change session's "+column, err)
}

// AtWork returns the WorkColumns of a session, or session_not_found.
func AtWork(ctx context.Context, q pg.Queryer, sessionID domain.SessionID) (domain.Session, error) {
	rows, _ := q.Query(ctx, `SELECT `+WorkColumns+` FROM sessions s WHERE s.id = $1 AND s.deleted_at IS NULL`, sessionID)

	s, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (s domain.Session, err error) {
		err = row.Scan(WorkFields(&s)...)
		return s, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return s, domain.SessionNotFound(sessionID)
	}

	return s, pg.Fault("read session", err)
}

// replayState is a column for the replay of the session row s; null for an
// ordinary session.
const replayState = `
	(SELECT json_build_object('source_session_id', r.source_session_id, 'speed', r.speed, 'status', r.status, 'position', r.position,
	        'total', r.total, 'started_at', r.started_at, 'handed_over_at', r.handed_over_at)
	 FROM replays r WHERE r.session_id = s.id)`
