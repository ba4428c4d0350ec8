package dagruns

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/infra/postgres/pg"
)

// watched gives the units of a run of which activity is due. Of a chat that waits
// for something outside of it none is expected, and the event log says nothing of one
// whose events are not published yet, as after an outage of the log.
func watched(ctx context.Context, tx pgx.Tx, run dagrun.Run) ([]dagrun.Watch, error) {
	if len(run.Watch) == 0 {
		return nil, nil
	}

	nodes := map[string]dag.Node{}
	for _, n := range run.Graph.Nodes {
		nodes[n.ID] = n
	}

	ids := make([]string, len(run.Watch))
	for i, u := range run.Watch {
		ids[i] = u.ID
	}

	rows, _ := tx.Query(ctx, `
		SELECT n.id, coalesce(c.state = 'running' AND c.waiting_reason = ANY ($2), false)
		       AND NOT EXISTS (SELECT FROM outbox o WHERE o.session_id = n.session_id AND o.seq IS NULL)
		FROM   dag_run_nodes n LEFT JOIN chats c ON c.id = n.chat_id WHERE n.id = ANY ($1)`, ids, working)

	works := map[string]bool{}

	var (
		id   string
		does bool
	)

	_, err := pgx.ForEachRow(rows, []any{&id, &does}, func() error {
		works[id] = does
		return nil
	})

	watched := make([]dagrun.Watch, len(run.Watch))
	for i, u := range run.Watch {
		watched[i] = dagrun.Watch{
			ID: u.ID, Attempt: u.Attempt, SessionID: u.SessionID, Limit: dagrun.Heartbeat(nodes[u.NodeID]), Waits: !works[u.ID],
		}
	}

	return watched, err
}

// working are the waiting reasons of a chat that works: events are expected of it.
var working = []domain.WaitingReason{domain.WaitingNone, domain.WaitingModel, domain.WaitingTool, domain.WaitingChild}

// WatchDAGUnit says when the next activity of a unit's attempt is due.
func (s *Store) WatchDAGUnit(ctx context.Context, unitID string, attempt int, due time.Time) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE dag_run_nodes SET due_at = $3
		WHERE  id = $1 AND attempt = $2 AND status = 'running' AND NOT superseded`, unitID, attempt, due)

	return pg.Fault("watch a node of a DAG run", err)
}

// FailDAGUnit ends the attempt of a unit whose work goes on. What it does meanwhile counts
// first: an attempt that has ended is not failed.
func (s *Store) FailDAGUnit(ctx context.Context, unitID string, attempt int, code, message string) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE dag_run_nodes SET rejected_code = $3, rejected = $4
		WHERE  id = $1 AND attempt = $2 AND status = 'running' AND phase = 'work' AND NOT superseded`, unitID, attempt, code, message)

	return pg.Fault("fail a node of a DAG run", err)
}
