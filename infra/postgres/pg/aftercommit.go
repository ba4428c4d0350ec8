package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// OnDelivery has start called for each delivery of a trigger that StartDelivery names, after the
// commit of its transaction. It must not block, and is not called when the process dies before:
// the reconciler repairs that. It is set before the first transaction.
func (db *DB) OnDelivery(start func(triggerID, deliveryID string)) { db.onDelivery = start }

// StartDelivery has the workflow of a delivery started when a transaction of InTx has committed.
func StartDelivery(tx pgx.Tx, triggerID, deliveryID string) {
	if t, watched := tx.(*watchedTx); watched {
		t.deliveries = append(t.deliveries, [2]string{triggerID, deliveryID})
	}
}

// watchedTx is a transaction with what starts after its commit.
type watchedTx struct {
	pgx.Tx
	deliveries [][2]string
}

// beginFunc runs fn in one transaction, and starts its deliveries after the commit.
func (db *DB) beginFunc(ctx context.Context, fn func(pgx.Tx) error) error {
	var watched *watchedTx

	err := pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		watched = &watchedTx{Tx: tx}
		return fn(watched)
	})
	if err != nil || db.onDelivery == nil {
		return err
	}

	for _, d := range watched.deliveries {
		db.onDelivery(d[0], d[1])
	}

	return nil
}
