package production

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/production"
	"everloop/infra/postgres/pg"
)

// Store reads and writes production solutions and the versions of their documents. It does
// not parse the content of documents. Only the owner and administrators can see a solution;
// for other callers the error is prod_solution_not_found.
type Store struct{ db *pg.DB }

// NewStore returns a store on a database.
func NewStore(db *pg.DB) *Store { return &Store{db} }

// solutionColumns select a production.Solution from the row p.
var solutionColumns = `
	p.id, p.owner_id, p.name, p.description, p.status, p.created_at, p.updated_at,
	p.ai_assist, p.flow_ai_assist, p.architecture_ai_assist,
	(SELECT s.id FROM sessions s WHERE s.id = p.main_session AND s.deleted_at IS NULL),
	(SELECT s.id FROM sessions s WHERE s.id = p.flow_session AND s.deleted_at IS NULL),
	(SELECT s.id FROM sessions s WHERE s.id = p.architecture_session AND s.deleted_at IS NULL),
	d.latest, d.published, a.latest, a.published,
	(SELECT jsonb_build_object('id', r.id, 'status', ` + pg.ShownRunStatus + `, 'finished_at', r.finished_at)
	 FROM   dag_runs r WHERE r.solution_id = p.id AND r.parent_run IS NULL ORDER BY r.id DESC LIMIT 1)`

const solutionTables = `
	prod_solutions p
	JOIN prod_documents d ON d.solution_id = p.id AND d.kind = 'dag'
	JOIN prod_documents a ON a.solution_id = p.id AND a.kind = 'architecture'`

func scanSolution(row pgx.CollectableRow) (production.Solution, error) {
	var s production.Solution

	err := row.Scan(&s.ID, &s.OwnerID, &s.Name, &s.Description, &s.Status, &s.CreatedAt, &s.UpdatedAt,
		&s.AIAssist, &s.FlowAIAssist, &s.ArchitectureAIAssist,
		&s.SessionID, &s.FlowSessionID, &s.ArchitectureSessionID,
		&s.DAG.CurrentVersion, &s.DAG.PublishedVersion, &s.Architecture.CurrentVersion, &s.Architecture.PublishedVersion, &s.LastRun)

	return s, err
}

// CreateProdSolution stores a solution with the first version of each document. The error
// is prod_solution_limit when the user has production.MaxSolutions already.
func (s *Store) CreateProdSolution(ctx context.Context, in production.NewSolution, first map[domain.DocumentKind]production.NewDocument) (
	made production.Solution, err error,
) {
	id := domain.NewID()
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := lockUser(ctx, tx, in.OwnerID); err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			INSERT INTO prod_solutions (id, owner_id, name, description, main_session, flow_session, architecture_session,
			                            ai_assist, flow_ai_assist, architecture_ai_assist)
			SELECT @id, @owner, @name, @description, @main, @flow, @architecture, @assist, @flow_assist, @architecture_assist
			WHERE  (SELECT count(*) FROM prod_solutions WHERE owner_id = @owner) < @max`,
			pgx.NamedArgs{
				"id": id, "owner": in.OwnerID, "name": in.Name, "description": in.Description, "main": in.SessionID,
				"flow": in.FlowSessionID, "architecture": in.ArchitectureSessionID, "max": production.MaxSolutions,
				"assist": in.AIAssist, "flow_assist": in.FlowAIAssist, "architecture_assist": in.ArchitectureAIAssist,
			})
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return domain.Newf(domain.Conflict, "prod_solution_limit", "a user can have %d production solutions; delete one first",
				production.MaxSolutions)
		}

		for kind, document := range first {
			if _, err := tx.Exec(ctx, `INSERT INTO prod_documents (solution_id, kind, latest) VALUES ($1, $2, 0)`, id, kind); err != nil {
				return err
			}

			if _, err := addVersion(ctx, tx, in.OwnerID, id, kind, document); err != nil {
				return err
			}
		}

		if err := markSessions(ctx, tx, id); err != nil {
			return err
		}

		made, err = solution(ctx, tx, domain.User{ID: in.OwnerID}, id, "")

		return err
	})

	return made, pg.Fault("create production solution", err)
}

// ProdSolutions returns a page of a user's solutions, newest first, and their total number.
func (s *Store) ProdSolutions(ctx context.Context, userID string, limit, offset int) (page []production.Solution, total int, err error) {
	var batch pgx.Batch
	batch.Queue(`SELECT `+solutionColumns+` FROM `+solutionTables+` WHERE p.owner_id = $1 ORDER BY p.id DESC LIMIT $2 OFFSET $3`,
		userID, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanSolution)
			return err
		})
	batch.Queue(`SELECT count(*) FROM prod_solutions WHERE owner_id = $1`, userID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list production solutions", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// ProdSolution returns one solution, or prod_solution_not_found.
func (s *Store) ProdSolution(ctx context.Context, caller domain.User, id string) (production.Solution, error) {
	found, err := solution(ctx, s.db.Pool, caller, id, "")
	return found, pg.Fault("read production solution", err)
}

// KnownProdSolutions returns the ids of solutions that the caller can see.
func (s *Store) KnownProdSolutions(ctx context.Context, caller domain.User, ids []string) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT id FROM prod_solutions WHERE id = ANY ($1) AND (owner_id = $2 OR $3)`,
		ids, caller.ID, caller.Administrator)
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return known, pg.Fault("look for production solutions", err)
}

// KnownWebhooks returns the ids that belong to webhooks of the user.
func (s *Store) KnownWebhooks(ctx context.Context, userID string, ids []string) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT id FROM webhooks WHERE id = ANY ($1) AND owner_id = $2`, ids, userID)
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return known, pg.Fault("look for webhooks", err)
}

// Colleagues returns the users who share a production workspace with the user and have a role
// there that permits changes.
func (s *Store) Colleagues(ctx context.Context, userID string, ids []string) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT DISTINCT m.user_id FROM prod_workspace_members o JOIN prod_workspace_members m ON m.workspace_id = o.workspace_id
		WHERE  o.user_id = $1 AND m.user_id = ANY ($2) AND m.role <> 'viewer'`, userID, ids)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return found, pg.Fault("look for members of workspaces", err)
}

func solution(ctx context.Context, q pg.Queryer, caller domain.User, id, lock string) (production.Solution, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+solutionColumns+` FROM `+solutionTables+`
		WHERE  p.id = $1 AND (p.owner_id = $2 OR $3) `+lock, id, caller.ID, caller.Administrator)

	found, err := pgx.CollectExactlyOneRow(rows, scanSolution)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, production.NotFound(id)
	}

	return found, err
}

// ChangeProdSolution sets the fields that change returns for the stored solution. An error of
// change rolls back.
func (s *Store) ChangeProdSolution(ctx context.Context, caller domain.User, id string,
	change func(production.Solution) (production.SolutionChange, error),
) (changed production.Solution, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		found, err := solution(ctx, tx, caller, id, "FOR NO KEY UPDATE OF p")
		if err != nil {
			return err
		}

		if err := found.MayChange(caller); err != nil {
			return err
		}

		c, err := change(found)
		if err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `
			UPDATE prod_solutions
			SET    name = coalesce(@name, name), description = coalesce(@description, description), status = coalesce(@status, status),
			       main_session = coalesce(@session, main_session), flow_session = coalesce(@flow, flow_session),
			       architecture_session = coalesce(@architecture, architecture_session), ai_assist = coalesce(@assist, ai_assist),
			       flow_ai_assist = coalesce(@flow_assist, flow_ai_assist),
			       architecture_ai_assist = coalesce(@architecture_assist, architecture_ai_assist), updated_at = now()
			WHERE  id = @id`,
			pgx.NamedArgs{
				"id": id, "name": c.Name, "description": c.Description, "status": c.Status, "session": c.SessionID,
				"flow": c.FlowSessionID, "architecture": c.ArchitectureSessionID, "assist": c.AIAssist,
				"flow_assist": c.FlowAIAssist, "architecture_assist": c.ArchitectureAIAssist,
			})
		if err == nil {
			err = markSessions(ctx, tx, id)
		}

		if err != nil {
			return err
		}

		changed, err = solution(ctx, tx, caller, id, "")

		return err
	})

	return changed, pg.Fault("change production solution", err)
}

// DeleteProdSolution deletes a solution with its documents and runs. It deletes nothing and
// returns false while a run has not ended.
func (s *Store) DeleteProdSolution(ctx context.Context, caller domain.User, id string) (deleted bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		// No run starts under this lock.
		tag, err := tx.Exec(ctx, `SELECT 1 FROM prod_solutions WHERE id = $1 AND owner_id = $2 FOR UPDATE`, id, caller.ID)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return production.NotFound(id)
		}

		tag, err = tx.Exec(ctx, pg.UnfinishedRuns+`DELETE FROM prod_solutions WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM unfinished)`, id)
		deleted = err == nil && tag.RowsAffected() == 1

		return err
	})

	return deleted, pg.Fault("delete production solution", err)
}

// lockUser serialises the changes that count against the limits of one user.
func lockUser(ctx context.Context, tx pgx.Tx, userID string) error {
	_, err := tx.Exec(ctx, `SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE`, userID)
	return err
}
