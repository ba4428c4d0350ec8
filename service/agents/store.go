package agents

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/postgres/pg"
)

// Store reads and writes agents, instances and runtimes. An agent that a user may not see does
// not exist for that user.
type Store struct{ db *pg.DB }

// NewStore returns a new store on a database.
func NewStore(db *pg.DB) *Store { return &Store{db} }

// visible is a condition on the row a of prod_agents or agent_instances: the user @user
// may see it. The array lets the index of owners be used.
const visible = `
	a.owner_id = ANY (ARRAY(SELECT @user::text UNION SELECT p.peer_id FROM workspace_peers p WHERE p.user_id = @user))
	AND (a.owner_id = @user OR a.visibility = 'workspace')`

const summaryColumns = `
	a.id, a.agent_id, a.name, a.icon, a.solution_id, a.biz_role_id, a.initial_mode, a.skills, a.layout_type, a.runtime_provider,
	a.visibility, a.version, a.owner_id, a.created_at, a.updated_at`

func summaryFields(a *prodagent.Summary) []any {
	return []any{
		&a.RecordID,
		&a.AgentID,
		&a.Name,
		&a.Icon,
		&a.SolutionID,
		&a.BizRoleID,
		&a.InitialMode,
		&a.Skills,
		&a.LayoutType,
		&a.RuntimeProvider,
		&a.Visibility,
		&a.Version,
		&a.OwnerID,
		&a.CreatedAt,
		&a.UpdatedAt,
	}
}

func scanSummary(row pgx.CollectableRow) (a prodagent.Summary, err error) {
	return a, row.Scan(summaryFields(&a)...)
}

const agentColumns = summaryColumns + `, a.agent_template, a.instructions, a.skills_data, a.init_script, a.preview_urls`

func scanAgent(row pgx.CollectableRow) (a prodagent.Agent, err error) {
	fields := append(summaryFields(&a.Summary), &a.AgentTemplate, &a.Instructions, &a.SkillsData, &a.InitScript, &a.PreviewURLs)
	return a, row.Scan(fields...)
}

func oneAgent(ctx context.Context, q pg.Queryer, sql string, args pgx.NamedArgs) (prodagent.Agent, error) {
	rows, _ := q.Query(ctx, sql, args)
	return pgx.CollectExactlyOneRow(rows, scanAgent)
}

func agentArgs(a prodagent.Agent) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": a.RecordID, "user": a.OwnerID, "agent": a.AgentID, "name": a.Name, "icon": a.Icon, "solution": a.SolutionID,
		"role": a.BizRoleID, "template": a.AgentTemplate, "instructions": a.Instructions, "mode": a.InitialMode, "skills": a.Skills,
		"data": a.SkillsData, "script": a.InitScript, "layout": a.LayoutType, "previews": a.PreviewURLs, "provider": a.RuntimeProvider,
		"visibility": a.Visibility,
	}
}

// CreateProdAgent stores a production agent. A user who has MaxProdAgents gets
// prod_agent_limit, one who has used the agent_id agent_id_taken.
func (s *Store) CreateProdAgent(ctx context.Context, in prodagent.Agent) (made prodagent.Agent, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := within(ctx, tx, in.OwnerID, "prod_agents", prodagent.MaxAgents); err != nil {
			return err
		}

		made, err = oneAgent(ctx, tx, `
			INSERT INTO prod_agents AS a (id, owner_id, agent_id, name, icon, solution_id, biz_role_id, agent_template, instructions,
			                              initial_mode, skills, skills_data, init_script, layout_type, preview_urls, runtime_provider,
			                                  visibility)
			VALUES (@id, @user, @agent, @name, @icon, @solution, @role, @template, @instructions, @mode, @skills, @data, @script, @layout,
			        @previews, @provider, @visibility)
			RETURNING `+agentColumns, agentArgs(in))

		return taken(err, in.AgentID)
	})

	return made, pg.Fault("create production agent", err)
}

// taken turns the violation of the unique agent_id into its error.
func taken(err error, agentID string) error {
	var violation *pgconn.PgError
	if errors.As(err, &violation) && violation.ConstraintName == "prod_agents_owner_id_agent_id_key" {
		return domain.Newf(domain.Conflict, "agent_id_taken", "you have a production agent with the agent_id %s", agentID)
	}

	return err
}

// within refuses a row beyond the limit of a user, whose row serialises creations, so
// that they count each other. The table is named by this package.
func within(ctx context.Context, tx pgx.Tx, userID, table string, most int) error {
	if _, err := tx.Exec(ctx, `SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE`, userID); err != nil {
		return err
	}

	var count int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM `+table+` WHERE owner_id = $1`, userID).Scan(&count); err != nil {
		return err
	}

	switch {
	case count < most:
		return nil
	case table == "prod_agents":
		return domain.Newf(domain.Conflict, "prod_agent_limit", "a user may have %d production agents; delete one first", most)
	default:
		return domain.Newf(domain.Conflict, "agent_instance_limit", "a user may have %d agent instances; delete one first", most)
	}
}

// ProdAgents lists the production agents that a user may see, newest first: a page, and
// how many there are.
func (s *Store) ProdAgents(ctx context.Context, userID string, limit, offset int) (page []prodagent.Summary, total int, err error) {
	args := pgx.NamedArgs{"user": userID, "limit": limit, "offset": offset}

	var batch pgx.Batch
	batch.Queue(`SELECT `+summaryColumns+` FROM prod_agents a WHERE `+visible+` ORDER BY a.id DESC LIMIT @limit OFFSET @offset`, args).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanSummary)
			return err
		})
	batch.Queue(`SELECT count(*) FROM prod_agents a WHERE `+visible, args).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list production agents", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// ProdAgent reads a production agent that the user may see.
func (s *Store) ProdAgent(ctx context.Context, userID, recordID string) (prodagent.Agent, error) {
	found, err := oneAgent(ctx, s.db.Pool, `SELECT `+agentColumns+` FROM prod_agents a WHERE a.id = @id AND `+visible,
		pgx.NamedArgs{"id": recordID, "user": userID})
	if errors.Is(err, pgx.ErrNoRows) {
		err = prodagent.NotFound(recordID)
	}

	return found, pg.Fault("read production agent", err)
}

// ProdAgentByName reads a production agent by its agent_id: the user's own, or else the
// oldest of those that the user may see.
func (s *Store) ProdAgentByName(ctx context.Context, userID, agentID string) (prodagent.Agent, error) {
	found, err := oneAgent(ctx, s.db.Pool, `
		SELECT `+agentColumns+` FROM prod_agents a WHERE a.agent_id = @agent AND `+visible+`
		ORDER  BY a.owner_id = @user DESC, a.id LIMIT 1`, pgx.NamedArgs{"agent": agentID, "user": userID})
	if errors.Is(err, pgx.ErrNoRows) {
		err = prodagent.NotFound(agentID)
	}

	return found, pg.Fault("read production agent", err)
}

// KnownAgents returns those of the agent_ids that name a production agent which the user
// may see.
func (s *Store) KnownAgents(ctx context.Context, userID string, agentIDs []string) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT DISTINCT a.agent_id FROM prod_agents a WHERE a.agent_id = ANY (@ids) AND `+visible,
		pgx.NamedArgs{"ids": agentIDs, "user": userID})
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return known, pg.Fault("look for production agents", err)
}

// ReplaceProdAgent sets all fields of a user's own production agent but its agent_id.
func (s *Store) ReplaceProdAgent(ctx context.Context, in prodagent.Agent) (prodagent.Agent, error) {
	changed, err := oneAgent(ctx, s.db.Pool, `
		UPDATE prod_agents a
		SET    name = @name, icon = @icon, solution_id = @solution, biz_role_id = @role, agent_template = @template,
		       instructions = @instructions, initial_mode = @mode, skills = @skills, skills_data = @data, init_script = @script,
		       layout_type = @layout, preview_urls = @previews, runtime_provider = @provider, visibility = @visibility,
		       version = version + 1, updated_at = now()
		WHERE  a.id = @id AND a.owner_id = @user
		RETURNING `+agentColumns, agentArgs(in))
	if errors.Is(err, pgx.ErrNoRows) {
		err = prodagent.NotFound(in.RecordID)
	}

	return changed, pg.Fault("change production agent", err)
}

// DeleteProdAgent removes a user's own production agent. Its instances stay as they are.
func (s *Store) DeleteProdAgent(ctx context.Context, userID, recordID string) error {
	tag, err := s.db.Pool.Exec(ctx, `DELETE FROM prod_agents WHERE id = $1 AND owner_id = $2`, recordID, userID)
	if err == nil && tag.RowsAffected() == 0 {
		err = prodagent.NotFound(recordID)
	}

	return pg.Fault("delete production agent", err)
}
