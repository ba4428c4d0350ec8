-- +goose Up

-- What model calls have used besides tokens in and out. Costs are in billionths of the
-- currency of the model list, so that sums are exact.
ALTER TABLE entries
    ADD COLUMN cache_read_tokens  bigint NOT NULL DEFAULT 0,
    ADD COLUMN cache_write_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN cost_nano          bigint NOT NULL DEFAULT 0;
ALTER TABLE chats
    ADD COLUMN cache_read_tokens  bigint NOT NULL DEFAULT 0,
    ADD COLUMN cache_write_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN cost_nano          bigint NOT NULL DEFAULT 0,
    ADD COLUMN uncosted_tokens    bigint NOT NULL DEFAULT 0;
ALTER TABLE scheduled_runs
    ADD COLUMN cache_read_tokens  bigint NOT NULL DEFAULT 0,
    ADD COLUMN cache_write_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN cost_nano          bigint NOT NULL DEFAULT 0,
    ADD COLUMN uncosted_tokens    bigint NOT NULL DEFAULT 0;

-- Processes of the version before write floats into it, which PostgreSQL converts.
ALTER TABLE sessions ALTER COLUMN used_cost TYPE numeric USING round(used_cost::numeric, 9);

-- What the model calls of a session have used, by day (UTC) and model. A call of a model
-- without a price counts in a row of its own.
CREATE TABLE session_usage (
    session_id         text NOT NULL REFERENCES sessions (id),
    owner_id           text NOT NULL REFERENCES users (id),
    day                date NOT NULL,
    model              text NOT NULL,
    priced             boolean NOT NULL,
    calls              bigint NOT NULL,
    input_tokens       bigint NOT NULL,
    output_tokens      bigint NOT NULL,
    cache_read_tokens  bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cost_nano          bigint NOT NULL,
    first_at           timestamptz NOT NULL DEFAULT now(),
    last_at            timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, day, model, priced)
) WITH (fillfactor = 80);
CREATE INDEX session_usage_owner ON session_usage (owner_id, day);
CREATE INDEX session_usage_day ON session_usage (day);

-- The same of sessions that are deleted, together.
CREATE TABLE deleted_usage (
    owner_id           text NOT NULL REFERENCES users (id),
    day                date NOT NULL,
    model              text NOT NULL,
    priced             boolean NOT NULL,
    calls              bigint NOT NULL,
    input_tokens       bigint NOT NULL,
    output_tokens      bigint NOT NULL,
    cache_read_tokens  bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cost_nano          bigint NOT NULL,
    PRIMARY KEY (owner_id, day, model, priced)
);
CREATE INDEX deleted_usage_day ON deleted_usage (day);

-- Outcome contract: files that must exist and commands that must pass after a run, and
-- what their checks found.
ALTER TABLE scheduled_tasks
    ADD COLUMN files    text[] NOT NULL DEFAULT '{}',
    ADD COLUMN commands text[] NOT NULL DEFAULT '{}';
ALTER TABLE scheduled_runs ADD COLUMN checks jsonb NOT NULL DEFAULT '[]';

-- +goose Down
SELECT 1;
