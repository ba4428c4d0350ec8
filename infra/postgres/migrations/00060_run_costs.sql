-- +goose Up

-- What runs have used besides input and output tokens, as in chats.
ALTER TABLE dag_run_nodes
    ADD COLUMN cache_read_tokens  bigint NOT NULL DEFAULT 0,
    ADD COLUMN cache_write_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN cost_nano          bigint NOT NULL DEFAULT 0,
    ADD COLUMN uncosted_tokens    bigint NOT NULL DEFAULT 0;
ALTER TABLE issue_runs
    ADD COLUMN cache_read_tokens  bigint NOT NULL DEFAULT 0,
    ADD COLUMN cache_write_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN cost_nano          bigint NOT NULL DEFAULT 0;

-- +goose Down
SELECT 1;
