package sessions

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

const budgetColumns = `s.setup -> 'budget', s.used_tokens, ` + UsedCost

func scanBudget(row pgx.CollectableRow) (domain.SpentBudget, error) {
	var (
		spent domain.SpentBudget
		own   *domain.Budget
	)

	err := row.Scan(&own, &spent.UsedTokens, &spent.UsedCost)
	if own != nil {
		spent.Budget = *own
	}

	return spent, err
}

// SetSessionBudget bounds what the session's chats may use from now on, all that
// they have used included, and says how much that is.
func (db *Base) SetSessionBudget(
	ctx context.Context,
	caller domain.User,
	id domain.SessionID,
	budget domain.Budget,
) (domain.SpentBudget, error) {
	rows, _ := db.Pool.Query(ctx, `
		UPDATE sessions s SET setup = s.setup || jsonb_build_object('budget', @budget::jsonb), updated_at = now()
		WHERE  s.id = @id AND s.owner_id = @owner AND s.deleted_at IS NULL
		RETURNING `+budgetColumns,
		pgx.NamedArgs{"id": id, "owner": caller.ID, "budget": budget})

	return db.oneBudget(ctx, rows, caller, id)
}

// SessionBudget reads a session's own budget and what was used of it.
func (db *Base) SessionBudget(ctx context.Context, caller domain.User, id domain.SessionID) (domain.SpentBudget, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+budgetColumns+` FROM sessions s WHERE s.id = $1 AND s.owner_id = $2 AND s.deleted_at IS NULL`, id, caller.ID)

	return db.oneBudget(ctx, rows, caller, id)
}

func (db *Base) oneBudget(ctx context.Context, rows pgx.Rows, caller domain.User, id domain.SessionID) (domain.SpentBudget, error) {
	spent, err := pgx.CollectExactlyOneRow(rows, scanBudget)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err = db.OwnSession(ctx, caller, id); err == nil {
			err = domain.SessionNotFound(id)
		}

		return spent, err
	}

	return spent, pg.Fault("session budget", err)
}
