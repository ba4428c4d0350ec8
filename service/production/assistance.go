package production

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/production"
	"everloop/infra/postgres/pg"
)

// AssistedSolutions returns the user's solutions whose documents the agent of the session can
// edit, newest first.
func (s *Store) AssistedSolutions(ctx context.Context, userID string, sessionID domain.SessionID) ([]production.AssistedSolution, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT id, name, array_remove(ARRAY[CASE WHEN dag THEN 'dag' END, CASE WHEN architecture THEN 'architecture' END], NULL)
		FROM  (SELECT id, name,
		              ai_assist AND main_session = $2 IS TRUE OR flow_ai_assist AND flow_session = $2 IS TRUE AS dag,
		              ai_assist AND main_session = $2 IS TRUE OR architecture_ai_assist
		                  AND architecture_session = $2 IS TRUE AS architecture
		       FROM   prod_solutions WHERE owner_id = $1) p
		WHERE  dag OR architecture
		ORDER  BY id DESC`, userID, sessionID)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a production.AssistedSolution, err error) {
		err = row.Scan(&a.ID, &a.Name, &a.Kinds)
		return a, err
	})

	return found, pg.Fault("list assisted production solutions", err)
}

// markSessions marks the sessions in which an agent assists. AssistedSolutions is only called
// for marked sessions.
func markSessions(ctx context.Context, tx pgx.Tx, solutionID string) error {
	_, err := tx.Exec(ctx, `
		UPDATE sessions s SET assists_solutions = true
		FROM   prod_solutions p
		WHERE  p.id = $1 AND NOT s.assists_solutions
		       AND (p.ai_assist AND s.id = p.main_session OR p.flow_ai_assist AND s.id = p.flow_session
		            OR p.architecture_ai_assist AND s.id = p.architecture_session)`, solutionID)

	return err
}
