package dagruns

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain/dag"
	"everloop/domain/dagrun"
)

// iterate creates an iteration of a loop.
func (s *Store) iterate(
	ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, of dagrun.Request, i dagrun.Iteration,
) (dagrun.Outcome, error) {
	values := run.values(ctx, tx)

	request, failure := values.Iterate(n, of, i)
	if values.Err != nil || failure != nil {
		return failed(failure), values.Err
	}

	return addItems(ctx, tx, run, n, i.Number-1, []dagrun.Request{request})
}

// gatherLoop ends a loop whose condition holds after its last iteration, or that has had its
// maximum of them; otherwise it creates the next one, unless an earlier call has done that.
func (s *Store) gatherLoop(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, iterations int) (out dagrun.Outcome, err error) {
	last := dagrun.Iteration{Number: iterations}

	var (
		status           dagrun.Status
		output, previous *string
	)

	err = tx.QueryRow(ctx, `
		SELECT n.status, n.output, p.output
		FROM   dag_run_nodes n
		LEFT   JOIN dag_run_nodes p ON p.run_id = n.run_id AND p.node_id = n.node_id AND p.item = n.item - 1 AND p.item >= 0
		       AND NOT p.superseded
		WHERE  n.run_id = $1 AND n.node_id = $2 AND n.item = $3 AND NOT n.superseded`, run.id, n.ID, iterations-1).
		Scan(&status, &output, &previous)
	if err != nil || !status.Over() {
		return dagrun.Outcome{Status: dagrun.Running, Items: iterations}, err
	}

	last.Output, last.Previous = raw(output), raw(previous)
	values := run.values(ctx, tx)

	outcome, failure := values.Ends(n, last)
	if values.Err != nil || failure != nil {
		return failed(failure), values.Err
	}

	if outcome != "" {
		return complete(ctx, tx, run, n.ID, dagrun.NoItem, dagrun.LoopOutput(outcome, last))
	}

	request, err := requestOf(ctx, tx, run.id, n.ID)
	if err != nil {
		return out, err
	}

	return s.iterate(ctx, tx, run, n, request, dagrun.Iteration{Number: iterations + 1, Previous: last.Output})
}
