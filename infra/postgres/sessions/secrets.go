package sessions

import (
	"context"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// HoldsSecrets reports whether the files of a session may contain environment values of its owner,
// although other members of a workspace read the session.
func (db *Base) HoldsSecrets(ctx context.Context, id domain.SessionID) (holds bool, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT holds_secrets FROM sessions WHERE id = $1`, id).Scan(&holds)

	return holds, pg.Fault("read whether a session holds secrets", err)
}
