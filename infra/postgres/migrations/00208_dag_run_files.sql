-- +goose Up
-- The files that nodes of runs pass on: what was captured, as JSON (dagrun.Captured).
ALTER TABLE dag_run_nodes ADD COLUMN files text;
ALTER TABLE dag_runs
    ADD COLUMN files      int NOT NULL DEFAULT 0, -- of all its nodes and items
    ADD COLUMN file_bytes bigint NOT NULL DEFAULT 0;
-- Snapshots of runs, which are named after the runs. A row outlives its run until its
-- snapshots are removed.
CREATE TABLE dag_run_snapshots (
    run_id      text PRIMARY KEY,
    captured_at timestamptz NOT NULL DEFAULT clock_timestamp() -- the newest start of a capture
);
