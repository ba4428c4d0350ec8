package conversation

import (
	"context"
	"time"

	"everloop/infra/postgres/pg"
)

// Waits returns the longest wait by reason, and counts scheduled tasks that have drifted.
// Each part reads a partial index of what is open.
func (db *Base) Waits(ctx context.Context) (longest map[string]time.Duration, drifted map[string]int, err error) {
	var (
		question, model, queue time.Duration
		overdue, unsynced      int
	)

	err = db.Pool.QueryRow(ctx, `
		SELECT greatest(interval '0', now() - (SELECT min(asked_at) FROM questions WHERE state = 'open')),
		       greatest(interval '0', now() - (SELECT min(model_faults_since) FROM chats WHERE state = 'running')),
		       greatest(interval '0', now() - (SELECT min(created_at) FROM inbox WHERE state = 'queued')),
		       (SELECT count(*) FROM scheduled_tasks
		        WHERE  enabled AND deleted_at IS NULL AND next_run_at < now() - make_interval(secs => jitter_s) - interval '30 seconds'),
		       (SELECT count(*) FROM scheduled_tasks WHERE pending IS NOT NULL)`).
		Scan(&question, &model, &queue, &overdue, &unsynced)
	if err != nil {
		return nil, nil, pg.Fault("read how long work has waited", err)
	}

	return map[string]time.Duration{"question": question, "model": model, "queue": queue},
		map[string]int{"overdue": overdue, "unsynced": unsynced}, nil
}
