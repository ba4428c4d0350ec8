package dagruns

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/infra/postgres/pg"
)

// forecastRuns bounds the runs that a forecast stands on.
const forecastRuns = 50

// Forecast estimates a run of a version from earlier ones; 0: the published version.
func (s *Service) Forecast(ctx context.Context, caller domain.User, solutionID string, version int) (dagrun.Forecast, error) {
	graph, version, err := s.cfg.Production.ReadableDAG(ctx, caller, solutionID, version)
	if err != nil {
		return dagrun.Forecast{}, err
	}

	runs, nodes, err := s.NodeForecasts(ctx, solutionID, graph)
	if err != nil {
		return dagrun.Forecast{}, err
	}

	return dagrun.ForecastOf(graph, version, runs, nodes), nil
}

// NodeForecasts estimates the nodes of a graph from the newest completed runs of a solution, and
// returns how many runs there are. Of a node those runs count in which it had the definition of
// the graph, or was skipped; outputs that were used again do not count.
func (s *Store) NodeForecasts(
	ctx context.Context,
	solutionID string,
	g dag.Graph,
) (runs int, found map[string]dagrun.NodeForecast, err error) {
	ids, definitions := make([]string, len(g.Nodes)), make([]string, len(g.Nodes))
	waits := map[string]float64{}

	for i, n := range g.Nodes {
		ids[i], definitions[i] = n.ID, dagrun.Definition(n)

		if n.Type == dag.Wait {
			waits[n.ID] = float64(configOf(n).WaitS)
		}
	}

	const basis = `
		SELECT id FROM dag_runs
		WHERE  solution_id = $1 AND node_id IS NULL AND status = 'completed' ORDER BY id DESC LIMIT $2`

	found = map[string]dagrun.NodeForecast{}

	var batch pgx.Batch
	batch.Queue(`SELECT count(*) FROM (`+basis+`) b`, solutionID, forecastRuns).QueryRow(func(row pgx.Row) error { return row.Scan(&runs) })
	batch.Queue(`
		WITH basis AS (`+basis+`),
		ran AS (
			SELECT n.node_id, n.status <> 'skipped' AS ran,
			       CASE WHEN n.status = 'skipped' THEN 0 ELSE coalesce(extract(epoch FROM n.finished_at - n.started_at), 0) END AS seconds,
			       n.input_tokens + n.output_tokens + coalesce(i.tokens, 0) AS tokens, n.cost_nano + coalesce(i.cost, 0) AS cost,
			       n.uncosted_tokens + coalesce(i.uncosted, 0) AS uncosted
			FROM   basis b JOIN dag_run_nodes n ON n.run_id = b.id AND n.item = -1 AND NOT n.superseded
			JOIN   unnest($3::text[], $4::text[]) d (node_id, definition) ON d.node_id = n.node_id
			LEFT   JOIN LATERAL (
				SELECT sum(i.input_tokens + i.output_tokens) AS tokens, sum(i.cost_nano) AS cost, sum(i.uncosted_tokens) AS uncosted
				FROM   dag_run_nodes i
				WHERE  i.run_id = n.run_id AND i.node_id = n.node_id AND i.item >= 0 AND NOT i.superseded) i ON true
			WHERE  n.status = 'skipped' OR n.status IN ('completed', 'failed') AND n.definition = d.definition)
		SELECT node_id, count(*) FILTER (WHERE ran), sum(uncosted)::bigint,
		       percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY seconds::float8),
		       percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY tokens::float8),
		       percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY cost::float8 / 1e9)
		FROM   ran GROUP BY node_id`, solutionID, forecastRuns, ids, definitions).
		Query(func(rows pgx.Rows) error {
			var (
				n                     dagrun.NodeForecast
				uncosted              int64
				seconds, tokens, cost [2]float64
			)

			_, err := pgx.ForEachRow(rows, []any{&n.NodeID, &n.Runs, &uncosted, &seconds, &tokens, &cost}, func() error {
				wait := waits[n.NodeID] // its row has no start
				if n.Runs == 0 {
					wait = 0
				}

				n.DurationS = &dagrun.Estimate{Median: max(seconds[0], wait), P90: max(seconds[1], wait)}
				n.Tokens = &dagrun.Estimate{Median: tokens[0], P90: tokens[1]}

				if n.CostUSD = nil; uncosted == 0 {
					n.CostUSD = &dagrun.Estimate{Median: cost[0], P90: cost[1]}
				}

				found[n.NodeID] = n

				return nil
			})

			return err
		})

	return runs, found, pg.Fault("forecast a DAG run", s.db.Pool.SendBatch(ctx, &batch).Close())
}
