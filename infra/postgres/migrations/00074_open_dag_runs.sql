-- +goose Up

-- What the reconciler looks for among the runs of DAGs: those that are not over, and nodes
-- whose work is yet to be stopped.
CREATE INDEX dag_runs_unfinished ON dag_runs (id) WHERE finished_at IS NULL;
CREATE INDEX dag_run_nodes_stopping ON dag_run_nodes (run_id) WHERE stop;

-- +goose Down
DROP INDEX dag_run_nodes_stopping;
DROP INDEX dag_runs_unfinished;
