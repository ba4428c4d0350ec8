package dagruns

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/infra/postgres/pg"
)

// NewestOutputs reads the outputs of some nodes, and the inputs, of the newest run of a solution
// that has them all. Outputs that a run of one node was given do not count. Inputs are nil when
// there is no such run.
func (s *Store) NewestOutputs(
	ctx context.Context,
	solutionID string,
	nodes []string,
) (inputs json.RawMessage, found []dagrun.Pinned, err error) {
	const made = `
		FROM   dag_run_nodes n
		WHERE  n.run_id = r.id AND n.node_id = ANY ($2) AND n.item = -1 AND NOT n.superseded
		AND    n.status IN ('completed', 'reused') AND n.reuse_reason <> 'pinned'`

	rows, _ := s.db.Pool.Query(ctx, `
		WITH newest AS (
			SELECT r.id, r.inputs FROM dag_runs r
			WHERE  r.solution_id = $1 AND (SELECT count(*) `+made+`) = cardinality($2::text[])
			ORDER  BY r.id DESC LIMIT 1)
		SELECT r.inputs, n.node_id, n.id, n.output, n.files, coalesce(n.session_id, '')
		FROM   newest r
		LEFT   JOIN LATERAL (SELECT n.node_id, coalesce(n.reused_from, n.id) AS id, n.output, n.files, n.session_id `+made+`) n ON true`,
		solutionID, append([]string{}, nodes...))

	var given string

	var nodeID, from, output, files *string

	var session domain.SessionID

	_, err = pgx.ForEachRow(rows, []any{&given, &nodeID, &from, &output, &files, &session}, func() error {
		inputs = json.RawMessage(given)

		if nodeID != nil {
			found = append(found, dagrun.Pinned{NodeID: *nodeID, From: *from, Output: raw(output), Files: files, SessionID: session})
		}

		return nil
	})

	return inputs, found, pg.Fault("read outputs of DAG runs", err)
}

// pin stores the outputs that a run of one node is given, as outputs of nodes that have ended.
func pin(ctx context.Context, tx pgx.Tx, in dagrun.New) error {
	var batch pgx.Batch

	for _, p := range in.Pinned {
		batch.Queue(`
			INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, output, reuse_reason, reused_from, files, session_id,
			                           started_at, finished_at)
			VALUES ($1, $2, $3, $4, 'reused', $5, 'pinned', nullif($6, ''), $7, nullif($8, ''), clock_timestamp(), clock_timestamp())`,
			domain.NewID(), in.ID, in.SolutionID, p.NodeID, string(p.Output), p.From, p.Files, p.SessionID)
	}

	return tx.SendBatch(ctx, &batch).Close()
}
