package notify

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/trigger"
	"everloop/infra/postgres/pg"
)

// endedRun is a run of a source that has ended.
type endedRun struct {
	source trigger.Source
	owner  string // of the task or the DAG; the triggers of members follow the issues of their workspaces
	run    string // as deliveries name what they have started
	event  trigger.RunEvent
	data   any
}

// runEnded writes the deliveries of the triggers that follow the runs of a source, in the
// transaction that ends the run. Their workflows start after the commit.
func runEnded(ctx context.Context, tx pgx.Tx, end endedRun) error {
	rows, _ := tx.Query(ctx, `
		SELECT t.id, t.rate_limit, greatest(t.rate_next, '2000-01-01'), clock_timestamp() FROM triggers t
		WHERE  t.source_kind = @kind AND t.source_id = @id AND @event = ANY (t.ends)
		AND    (t.owner_id = @owner OR @kind = 'issue' AND EXISTS (
		            SELECT 1 FROM issues i JOIN prod_workspace_members m ON m.workspace_id = i.workspace_id
		            WHERE i.id = @id AND m.user_id = t.owner_id))
		ORDER  BY t.id FOR NO KEY UPDATE OF t`,
		pgx.NamedArgs{"kind": end.source.Kind, "id": end.source.ID, "event": end.event, "owner": end.owner})

	followers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[follower])
	if err != nil || len(followers) == 0 {
		return err
	}

	body, err := json.Marshal(map[string]any{"event": end.event, "source": end.source, "run": end.data})
	if err != nil {
		return err
	}

	ancestors, err := ancestorsOf(ctx, tx, end.run)
	if err != nil {
		return err
	}

	for _, f := range followers {
		if err := f.deliver(ctx, tx, end, body, ancestors); err != nil {
			return err
		}
	}

	return nil
}

// ancestorsOf returns the triggers of the chain that started a run, the first one first.
func ancestorsOf(ctx context.Context, tx pgx.Tx, run string) (ids []string, err error) {
	err = tx.QueryRow(ctx, `
		SELECT ancestors || trigger_id FROM trigger_deliveries WHERE run = $1 ORDER BY id DESC LIMIT 1`, run).Scan(&ids)
	if errors.Is(err, pgx.ErrNoRows) {
		return []string{}, nil
	}

	return ids, err
}

// follower is a trigger that follows runs.
type follower struct {
	ID        string
	Rate      int
	Next, Now time.Time
}

func (f follower) deliver(ctx context.Context, tx pgx.Tx, end endedRun, body []byte, ancestors []string) error {
	id := domain.NewID()
	outcome, reason := trigger.Outcome(""), trigger.CheckChain(ancestors, f.ID)

	next, wait := trigger.Take(f.Next, f.Now, f.Rate)

	switch {
	case reason != "":
		outcome = trigger.Failed
	case wait > 0:
		outcome = trigger.RateLimited
	}

	var batch pgx.Batch
	batch.Queue(`UPDATE triggers SET rate_next = $2, last_delivery_at = $3 WHERE id = $1`, f.ID, next, f.Now)
	batch.Queue(`
		INSERT INTO trigger_deliveries
		       (id, work_id, trigger_id, key, counted, outcome, reason_code, error, event, headers, body, body_bytes, ancestors,
		        finished_at)
		VALUES (@id, @work, @trigger, @id, @counted, nullif(@outcome, ''), nullif(@reason, ''), nullif(@error, ''), @event, '{}', @body,
		        @bytes, @ancestors, CASE WHEN @outcome <> '' THEN clock_timestamp() END)`,
		pgx.NamedArgs{
			"id": id, "work": domain.NewID(), "trigger": f.ID, "counted": !outcome.Refused(), "outcome": outcome, "reason": reason,
			"error": trigger.ChainFault(reason), "event": end.event, "body": body, "bytes": len(body), "ancestors": ancestors,
		})

	if outcome == "" {
		pg.StartDelivery(tx, f.ID, id)
	}

	return tx.SendBatch(ctx, &batch).Close()
}
