package sessions

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// SealSessionEnvs encrypts environments of sessions that are stored unencrypted, at most
// limit at once, and returns their number.
func (db *Base) SealSessionEnvs(ctx context.Context, limit int) (int64, error) {
	if !db.Seals() {
		return 0, nil
	}

	var sealed int64

	err := db.InTx(ctx, func(tx pgx.Tx) error {
		type plain struct {
			id  string
			env domain.SessionEnv
		}

		rows, _ := tx.Query(ctx, `
			SELECT id, env FROM sessions WHERE jsonb_typeof(env) = 'object' AND env <> '{}' ORDER BY id LIMIT $1
			    FOR UPDATE SKIP LOCKED`, limit)

		list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p plain, err error) {
			err = row.Scan(&p.id, &p.env)
			return p, err
		})
		if err != nil {
			return err
		}

		batch := &pgx.Batch{}
		for _, p := range list {
			batch.Queue(`UPDATE sessions SET env = $2 WHERE id = $1`, p.id, p.env)
		}

		sealed = int64(len(list))

		return tx.SendBatch(ctx, batch).Close()
	})

	return sealed, pg.Fault("seal the environments of sessions", err)
}
