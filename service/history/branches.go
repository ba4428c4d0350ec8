package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/transcript"
)

// branchRow is a branch as its row has it. Lineage names the branches that it
// comes from, the oldest first: of each it shows the entries below upto. Its own
// entries start at ForkSequence.
type branchRow struct {
	ID           domain.BranchID  `db:"id"`
	ForkSequence int64            `db:"fork_sequence"`
	NextSequence int64            `db:"next_sequence"`
	Lineage      history.Path     `db:"lineage"`
	BaseID       *domain.BranchID `db:"parent_branch_id"`
	ForkedFromID *domain.TurnID   `db:"forked_from_id"`
	Reason       string           `db:"reason"`
	Name         *string          `db:"name"`
	CreatedAt    time.Time        `db:"created_at"`
}

const branchColumns = `id, fork_sequence, next_sequence, lineage, parent_branch_id, forked_from_id, reason, name, created_at`

// path returns all that a branch shows, its own entries last.
func (b branchRow) path() history.Path {
	path := append(make(history.Path, 0, len(b.Lineage)+1), b.Lineage...)
	return append(path, history.Stretch{BranchID: b.ID, UpTo: b.NextSequence})
}

func readBranch(ctx context.Context, q pg.Queryer, sessionID domain.SessionID, branchID domain.BranchID) (branchRow, error) {
	rows, _ := q.Query(ctx, `SELECT `+branchColumns+` FROM branches WHERE id = $1 AND session_id = $2`, branchID, sessionID)

	branch, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[branchRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return branch, domain.Newf(domain.NotFound, "branch_not_found", "branch %s does not exist in this session", branchID)
	}

	return branch, err
}

// sessionBranches returns all branches of a session, the oldest first.
func sessionBranches(ctx context.Context, q pg.Queryer, sessionID domain.SessionID) ([]branchRow, error) {
	rows, _ := q.Query(ctx, `SELECT `+branchColumns+` FROM branches WHERE session_id = $1 ORDER BY created_at, id`, sessionID)
	return pgx.CollectRows(rows, pgx.RowToStructByName[branchRow])
}

// forkBranch makes a branch that shows what `from` shows below a sequence, and
// continues by itself. Nothing of the old one is changed.
func forkBranch(
	ctx context.Context,
	tx pgx.Tx,
	sessionID domain.SessionID,
	from branchRow,
	sequence int64,
	reason string,
) (branchRow, error) {
	made := branchRow{
		ID: domain.BranchID(domain.NewID()), ForkSequence: sequence, NextSequence: sequence, Reason: reason, BaseID: &from.ID,
		Lineage: from.path().Until(sequence),
	}

	err := tx.QueryRow(ctx, `
		INSERT INTO branches (id, session_id, parent_branch_id, fork_sequence, next_sequence, lineage, reason, forked_from_id)
		VALUES (@id, @session, @parent, @sequence, @sequence, @lineage, @reason, `+lastOnBranch("@parent", "@sequence")+`)
		RETURNING forked_from_id, created_at`,
		pgx.NamedArgs{
			"id": made.ID, "session": sessionID, "parent": from.ID, "sequence": sequence, "lineage": made.Lineage, "reason": reason,
		}).Scan(&made.ForkedFromID, &made.CreatedAt)
	if err != nil {
		return made, fmt.Errorf("fork branch: %w", err)
	}

	return made, nil
}

// lastOnBranch returns a scalar query for the last main-loop entry that a branch shows
// below a sequence.
func lastOnBranch(branch, before string) string {
	return `
	(SELECT e.id FROM ` + transcript.SeenFrom(branch) + `
	 CROSS JOIN LATERAL (
		SELECT p.id, p.sequence FROM entries p
		WHERE  p.branch_id = seen.branch_id AND p.sequence < least(seen.upto, ` + before + `) AND p.loop_id = 'root'
		ORDER  BY p.sequence DESC LIMIT 1) e
	 ORDER BY e.sequence DESC LIMIT 1)`
}

// activeBranch gives the branch that a session stands on.
func activeBranch(ctx context.Context, q pg.Queryer, sessionID domain.SessionID) (branchRow, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+branchColumns+` FROM branches
		WHERE  id = (SELECT active_branch_id FROM sessions WHERE id = $1 AND deleted_at IS NULL)`, sessionID)

	branch, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[branchRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return branch, domain.SessionNotFound(sessionID)
	}

	return branch, err
}
