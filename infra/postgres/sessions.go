package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// sessionColumns gives a domain.Session of the row s.
const sessionColumns = keptColumns + `, ` + noToolServers + ` AS no_tool_servers,
	` + computedWaiting + ` AS waiting_reason, ` + computedQueue + ` AS queue_length, ` + replayState + ` AS replay_state`

// noToolServers says of the row s that no tool server can be meant for it. Whose
// those of its solution are is not asked: it errs to the side of a look.
const noToolServers = `
	NOT (EXISTS (SELECT 1 FROM mcp_servers WHERE scope = 'service')
	     OR EXISTS (SELECT 1 FROM mcp_servers WHERE scope = 'solution' AND solution_id = s.solution_id)
	     OR EXISTS (SELECT 1 FROM mcp_servers WHERE session_id = s.id))`

// workColumns give, of the row s, what a worker may know of a session that it
// works for; workFields are where they go.
const workColumns = `
	s.id, s.owner_id, s.solution_id, s.biz_role_id, s.primary_skill_id, s.memory_enabled, s.env, s.disable_tools, s.setup, s.sandbox_uid`

func workFields(s *domain.Session) []any {
	return []any{
		&s.ID, &s.OwnerID, &s.SolutionID, &s.BizRoleID, &s.PrimarySkillID, &s.MemoryEnabled, &s.Env, &s.DisableTools, &s.Setup, &s.SandboxUID,
	}
}

// CreateSession makes a session with its root branch.
func (db *DB) CreateSession(ctx context.Context, ownerID string, in domain.NewSession) (domain.Session, error) {
	if in.Env == nil {
		in.Env = map[string]string{}
	}
	if in.DisableTools == nil {
		in.DisableTools = []string{}
	}
	args := pgx.NamedArgs{
		"id": domain.NewID(), "owner": ownerID, "branch": domain.NewID(), "intent": in.Intent,
		"solution": in.SolutionID, "role": in.BizRoleID, "template": in.TemplateID, "skill": in.PrimarySkillID,
		"model": in.Model, "factory": in.SoftwareFactory, "workspace": in.WorkspaceID, "memory": in.MemoryEnabled,
		"persistent": in.Persistent, "env": in.Env, "disabled": in.DisableTools, "setup": in.Setup,
	}
	rows, _ := db.Pool.Query(ctx, `
		WITH s AS (
			INSERT INTO sessions (id, owner_id, intent, solution_id, biz_role_id, template_id, primary_skill_id, model,
			                      software_factory_id, workspace_id, memory_enabled, is_persistent, env, disable_tools, setup,
			                      active_branch_id, intent_from_message)
			VALUES (@id, @owner, @intent, @solution, @role, @template, @skill, @model, @factory, @workspace, @memory,
			        @persistent, @env, @disabled, @setup, @branch, @intent = '')
			RETURNING *),
		root AS (INSERT INTO branches (id, session_id) SELECT active_branch_id, id FROM s)
		SELECT `+sessionColumns+` FROM s`, args)
	made, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])
	return made, fault("create session", err)
}

// OwnSession reads a session that the caller may change: his own. One that he
// may only see is forbidden, any other does not exist for him.
func (db *DB) OwnSession(ctx context.Context, caller domain.User, id string) (domain.Session, error) {
	session, role, err := db.ReadSession(ctx, caller, id)
	if err == nil && role != domain.ViewerOwner {
		return domain.Session{}, notOwner()
	}
	return session, err
}

func notOwner() *domain.Error {
	return domain.Newf(domain.Forbidden, "forbidden", "only the owner of the session may change it")
}

// SetSessionEnv replaces the environment that the session's tools get.
func (db *DB) SetSessionEnv(ctx context.Context, caller domain.User, id string, env map[string]string) (domain.Session, error) {
	if env == nil {
		env = map[string]string{}
	}
	return db.setSession(ctx, db.Pool, caller, id, "env", env)
}

// SetSessionPinned pins a session to the top of its owner's list, or lets it go.
func (db *DB) SetSessionPinned(ctx context.Context, caller domain.User, id string, pinned bool) (domain.Session, error) {
	return db.setSession(ctx, db.Pool, caller, id, "is_pinned", pinned)
}

// SetSessionShared opens a session to the eyes of every signed-in user, or
// closes it.
func (db *DB) SetSessionShared(ctx context.Context, caller domain.User, id string, shared bool) (domain.Session, error) {
	return db.setSession(ctx, db.Pool, caller, id, "shared", shared)
}

// SetSessionMemory says whether the session uses and writes memories.
func (db *DB) SetSessionMemory(ctx context.Context, caller domain.User, id string, enabled bool) (domain.Session, error) {
	return db.setSession(ctx, db.Pool, caller, id, "memory_enabled", enabled)
}

// RenameSession sets the intent and tells subscribers. From then on the first
// message no longer names the session.
func (j *Journal) RenameSession(ctx context.Context, caller domain.User, id, intent string) (domain.Session, error) {
	var session domain.Session
	err := j.Commit(ctx, func(c *Change) (err error) {
		if session, err = j.setSession(ctx, c, caller, id, "intent", intent); err != nil {
			return err
		}
		if _, err = c.Exec(ctx, `UPDATE sessions SET intent_from_message = false WHERE id = $1`, id); err != nil {
			return err
		}
		return emitSession(ctx, c, id)
	})
	return session, fault("rename session", err)
}

// SetSessionSetup changes what the setup names and leaves the rest as it is. The
// next model call goes by it.
func (db *DB) SetSessionSetup(ctx context.Context, caller domain.User, id string, setup domain.SessionSetup) (domain.Session, error) {
	rows, _ := db.Pool.Query(ctx, `
		UPDATE sessions s SET setup = s.setup || @setup::jsonb, updated_at = now()
		WHERE  s.id = @id AND s.owner_id = @owner AND s.deleted_at IS NULL
		RETURNING `+sessionColumns,
		pgx.NamedArgs{"id": id, "owner": caller.ID, "setup": setup})
	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])
	if errors.Is(err, pgx.ErrNoRows) {
		return session, domain.SessionNotFound(id)
	}
	return session, fault("change session's setup", err)
}

// setSession changes one column, named by this package and never by a client,
// of a session that the caller owns.
func (db *DB) setSession(ctx context.Context, q queryer, caller domain.User, id, column string, value any) (domain.Session, error) {
	rows, _ := q.Query(ctx, `
		UPDATE sessions s
		SET    `+column+` = @value, updated_at = now()
		WHERE  s.id = @id AND s.owner_id = @owner AND s.deleted_at IS NULL
		RETURNING `+sessionColumns,
		pgx.NamedArgs{"id": id, "owner": caller.ID, "value": value})
	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = db.OwnSession(ctx, caller, id) // is it hidden, or only not his?
		if err == nil {
			err = domain.SessionNotFound(id) // it changed hands in between
		}
		return domain.Session{}, err
	}
	return session, fault("change session's "+column, err)
}
