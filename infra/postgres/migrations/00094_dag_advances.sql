-- +goose Up

-- Repeated attempts of the same step of a run, which ends as failed after some of them.
ALTER TABLE dag_runs ADD COLUMN advances smallint NOT NULL DEFAULT 0;

-- +goose Down
SELECT 1;
