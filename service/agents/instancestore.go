package agents

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/prodagent"
	"everloop/infra/postgres/pg"
)

// status computes the status of the instance row a. Of its sessions the newest ones
// count, so that an instance with many costs no more.
var status = fmt.Sprintf(`
	CASE WHEN NOT EXISTS (SELECT 1 FROM workers w WHERE w.runtime_id = a.runtime_id AND %s) THEN 'offline'
	ELSE (
		SELECT CASE WHEN bool_or(s.status = 'running') THEN 'working'
		            WHEN bool_or(s.status = 'waiting_for_input') THEN 'blocked'
		            WHEN (array_agg(s.status ORDER BY s.updated_at DESC))[1] = 'failed' THEN 'error'
		            ELSE 'idle' END
		FROM   (SELECT session_id FROM agent_sessions WHERE instance_id = a.id ORDER BY session_id DESC LIMIT %d) x
		JOIN   sessions s ON s.id = x.session_id AND s.deleted_at IS NULL)
	END`, takesWork, prodagent.LookedSessions)

// shares are the workspaces with which the instance a is shared.
const shares = `(
	SELECT coalesce(jsonb_agg(jsonb_build_object('workspace_id', h.workspace_id, 'secrets', h.secrets) ORDER BY h.workspace_id), '[]')
	FROM   agent_instance_shares h WHERE h.instance_id = a.id)`

// visibleInstance is a condition on the row a of agent_instances: it is the user's own, or shared
// with a workspace of which both the user and its owner are members.
const visibleInstance = `(a.owner_id = @user OR a.visibility = 'workspace' AND EXISTS (
	SELECT 1 FROM agent_instance_shares h
	JOIN   prod_workspace_members m ON m.workspace_id = h.workspace_id AND m.user_id = @user
	JOIN   prod_workspace_members o ON o.workspace_id = h.workspace_id AND o.user_id = a.owner_id AND o.role <> 'viewer'
	WHERE  h.instance_id = a.id))`

const (
	listedColumns = `
	a.id, a.record_id, a.name, a.icon, a.description, a.instructions, a.runtime_id, a.visibility, a.model, a.max_concurrent_tasks,
	a.env_keys, a.owner_id, a.created_at, a.updated_at, a.archived_at, ` + shares + `, jsonb_build_object('skills', a.template->'skills')`

	storedColumns = `
	a.id, a.record_id, a.name, a.icon, a.description, a.instructions, a.runtime_id, a.visibility, a.model, a.max_concurrent_tasks,
	a.env_keys, a.owner_id, a.created_at, a.updated_at, a.archived_at, ` + shares + `, a.template`
)

func scanInstance(row pgx.CollectableRow) (a prodagent.Instance, err error) {
	err = row.Scan(&a.ID, &a.RecordID, &a.Name, &a.Icon, &a.Description, &a.Instructions, &a.RuntimeID, &a.Visibility, &a.Model,
		&a.MaxConcurrentTasks, &a.EnvKeyCount, &a.OwnerID, &a.CreatedAt, &a.UpdatedAt, &a.ArchivedAt,
		&a.SharedWith, &a.Spec, &a.Status)
	a.RuntimeBound, a.HasEnv = a.RuntimeID != "", a.EnvKeyCount > 0
	a.Spec.Instructions, a.Skills = a.Instructions, a.Spec.Skills

	return a, err
}

func oneInstance(ctx context.Context, q pg.Queryer, sql string, args pgx.NamedArgs) (prodagent.Instance, error) {
	rows, _ := q.Query(ctx, sql, args)
	return pgx.CollectExactlyOneRow(rows, scanInstance)
}

// CreateAgentInstance stores an instance. A user who has MaxAgentInstances gets
// agent_instance_limit.
func (s *Store) CreateAgentInstance(ctx context.Context, in prodagent.Instance) (made prodagent.Instance, err error) {
	in.Spec.Instructions = "" // it has a column, since it can be changed
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := within(ctx, tx, in.OwnerID, "agent_instances", prodagent.MaxInstances); err != nil {
			return err
		}

		made, err = oneInstance(ctx, tx, `
			INSERT INTO agent_instances AS a (id, owner_id, record_id, runtime_id, name, icon, description, instructions, template, model,
			                                  max_concurrent_tasks, env, env_keys, visibility)
			VALUES (@id, @user, @record, @runtime, @name, @icon, @description, @instructions, @template, @model, @tasks, @env, @keys,
			    @visibility)
			RETURNING `+storedColumns+`, `+status,
			pgx.NamedArgs{
				"id": in.ID, "user": in.OwnerID, "record": in.RecordID, "runtime": in.RuntimeID, "name": in.Name, "icon": in.Icon,
				"description": in.Description, "instructions": in.Instructions, "template": in.Spec, "model": in.Model,
				"tasks": in.MaxConcurrentTasks, "env": orNone(in.Env), "keys": len(in.Env), "visibility": in.Visibility,
			})
		if err != nil {
			return err
		}

		made.SharedWith = in.SharedWith

		return share(ctx, tx, in.OwnerID, in.ID, in.SharedWith)
	})

	return made, pg.Fault("create agent instance", err)
}

func orNone(env domain.SessionEnv) domain.SessionEnv {
	if env == nil {
		return domain.SessionEnv{}
	}

	return env
}

// AgentInstances lists the instances that a user may see, newest first: a page, and how
// many there are.
func (s *Store) AgentInstances(ctx context.Context, userID string, archived bool, limit, offset int) (
	page []prodagent.Instance, total int, err error,
) {
	const those = ` FROM agent_instances a WHERE (@archived OR a.archived_at IS NULL) AND ` + visibleInstance

	args := pgx.NamedArgs{"user": userID, "archived": archived, "limit": limit, "offset": offset}

	var batch pgx.Batch
	batch.Queue(`SELECT `+listedColumns+`, `+status+those+` ORDER BY a.id DESC LIMIT @limit OFFSET @offset`, args).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanInstance)
			return err
		})
	batch.Queue(`SELECT count(*)`+those, args).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list agent instances", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// AgentInstance reads an instance that the user may see.
func (s *Store) AgentInstance(ctx context.Context, userID, id string) (prodagent.Instance, error) {
	found, err := oneInstance(
		ctx,
		s.db.Pool,
		`SELECT `+storedColumns+`, `+status+` FROM agent_instances a WHERE a.id = @id AND `+visibleInstance,
		pgx.NamedArgs{"id": id, "user": userID},
	)
	if errors.Is(err, pgx.ErrNoRows) {
		err = prodagent.InstanceNotFound(id)
	}

	return found, pg.Fault("read agent instance", err)
}

// InstanceEnv reads the environment that the sessions of an instance get.
func (s *Store) InstanceEnv(ctx context.Context, id string) (env domain.SessionEnv, err error) {
	err = s.db.Pool.QueryRow(ctx, `SELECT env FROM agent_instances WHERE id = $1`, id).Scan(&env)
	if errors.Is(err, pgx.ErrNoRows) {
		err = prodagent.InstanceNotFound(id)
	}

	return env, pg.Fault("read the environment of an agent instance", err)
}

// ChangeAgentInstance changes a user's own instance. The next sessions are made so.
func (s *Store) ChangeAgentInstance(ctx context.Context, userID, id string, c prodagent.InstanceChange) (
	changed prodagent.Instance, err error,
) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		if changed, err = changeInstance(ctx, tx, userID, id, c); err != nil || c.SharedWith == nil {
			return err
		}

		changed.SharedWith = c.SharedWith

		return share(ctx, tx, userID, id, c.SharedWith)
	})

	return changed, pg.Fault("change agent instance", err)
}

func changeInstance(ctx context.Context, tx pgx.Tx, userID, id string, c prodagent.InstanceChange) (prodagent.Instance, error) {
	var keys *int

	if c.Env != nil {
		n := len(c.Env)
		keys = &n
	}

	changed, err := oneInstance(ctx, tx, `
		UPDATE agent_instances a
		SET    name = coalesce(@name, name), description = coalesce(@description, description),
		       instructions = coalesce(@instructions, instructions), visibility = coalesce(@visibility, visibility),
		       model = nullif(coalesce(@model, model), ''), max_concurrent_tasks = coalesce(@tasks, max_concurrent_tasks),
		       runtime_id = coalesce(@runtime, runtime_id), env_keys = coalesce(@keys, env_keys),
		       env = CASE WHEN @keys::int IS NULL THEN env ELSE @env END,
		       archived_at = CASE @archived::boolean WHEN true THEN coalesce(archived_at, now()) WHEN false THEN NULL ELSE archived_at END,
		       updated_at = now()
		WHERE  a.id = @id AND a.owner_id = @user
		RETURNING `+storedColumns+`, `+status,
		pgx.NamedArgs{
			"id": id, "user": userID, "name": c.Name, "description": c.Description, "instructions": c.Instructions,
			"visibility": c.Visibility, "model": c.Model, "tasks": c.MaxConcurrentTasks, "runtime": c.RuntimeID, "keys": keys,
			"env": orNone(c.Env), "archived": c.Archived,
		})
	if errors.Is(err, pgx.ErrNoRows) {
		err = prodagent.InstanceNotFound(id)
	}

	return changed, err
}

// share replaces the workspaces with which an instance is shared. Its owner must be a member of each.
func share(ctx context.Context, tx pgx.Tx, ownerID, id string, with []prodagent.Share) error {
	if _, err := tx.Exec(ctx, `DELETE FROM agent_instance_shares WHERE instance_id = $1`, id); err != nil {
		return err
	}

	for _, one := range with {
		tag, err := tx.Exec(ctx, `
			INSERT INTO agent_instance_shares (instance_id, workspace_id, secrets)
			SELECT $1, workspace_id, $4 FROM prod_workspace_members WHERE workspace_id = $2 AND user_id = $3
			ON     CONFLICT (instance_id, workspace_id) DO UPDATE SET secrets = excluded.secrets`,
			id, one.WorkspaceID, ownerID, one.Secrets)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return board.WorkspaceNotFound(one.WorkspaceID)
		}
	}

	return nil
}

// DeleteAgentInstance removes a user's own instance. Its sessions stay.
func (s *Store) DeleteAgentInstance(ctx context.Context, userID, id string) error {
	tag, err := s.db.Pool.Exec(ctx, `
		WITH gone AS (DELETE FROM agent_instances WHERE id = $1 AND owner_id = $2 RETURNING id),
		forgotten AS (DELETE FROM agent_sessions WHERE instance_id IN (SELECT id FROM gone))
		SELECT id FROM gone`, id, userID)
	if err == nil && tag.RowsAffected() == 0 {
		err = prodagent.InstanceNotFound(id)
	}

	return pg.Fault("delete agent instance", err)
}

// NoteAgentSession records that a session is one of an instance.
func (s *Store) NoteAgentSession(ctx context.Context, sessionID domain.SessionID, instanceID string) error {
	_, err := s.db.Pool.Exec(ctx, `
		INSERT INTO agent_sessions (session_id, instance_id) VALUES ($1, $2) ON CONFLICT (session_id) DO NOTHING`, sessionID, instanceID)

	return pg.Fault("record the session of an agent instance", err)
}

// InstancesByID reads the instances with the ids, newest first. The caller checks who may see them.
func (s *Store) InstancesByID(ctx context.Context, ids []string) ([]prodagent.Instance, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT `+listedColumns+`, `+status+` FROM agent_instances a WHERE a.id = ANY ($1)
		ORDER BY a.id DESC`, ids)
	found, err := pgx.CollectRows(rows, scanInstance)

	return found, pg.Fault("read agent instances", err)
}
