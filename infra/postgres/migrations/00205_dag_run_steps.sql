-- +goose Up
-- The workflow of a run decides what is due and what has failed; rows are for readers.
ALTER TABLE dag_runs DROP COLUMN wake_at, DROP COLUMN advances,
    ADD COLUMN output_bytes bigint NOT NULL DEFAULT 0; -- of all outputs of its nodes and items
ALTER TABLE dag_run_nodes DROP COLUMN rejected_code, DROP COLUMN rejected;
