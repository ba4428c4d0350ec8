-- +goose Up

-- Runs of DAGs that are over, of which each solution keeps the newest: their removal counts
-- to the oldest that is kept, and does not rank all of them.
CREATE INDEX dag_runs_over ON dag_runs (solution_id, id) WHERE finished_at IS NOT NULL AND parent_run IS NULL;

-- +goose Down
SELECT 1;
