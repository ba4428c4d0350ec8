-- +goose Up

-- How often the reconciler has restarted the workflow of a piece of work that is no chat,
-- the last run of it that was counted as lost, and when. Work that was never lost has no
-- row.
CREATE TABLE work_restarts (
    workflow_id  text PRIMARY KEY,
    run_id       text NOT NULL,
    restarts     int NOT NULL DEFAULT 1,
    restarted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX work_restarts_age ON work_restarts (restarted_at);

-- +goose Down
DROP TABLE work_restarts;
