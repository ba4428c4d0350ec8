-- +goose Up
-- The runs of an owner over all solutions, newest first.
CREATE INDEX dag_runs_owner ON dag_runs (owner_id, created_at, id) INCLUDE (status) WHERE parent_run IS NULL;
CREATE INDEX dag_runs_owner_subflows ON dag_runs (owner_id, created_at, id) INCLUDE (status) WHERE parent_run IS NOT NULL;
-- The one node that a run runs; null: the whole DAG.
ALTER TABLE dag_runs ADD COLUMN node_id text;
