-- +goose Up

-- The server that keeps the event log, and the number up to which sequences may have
-- been given that no process saved.
ALTER TABLE event_log
    ADD COLUMN server   text   NOT NULL DEFAULT '',
    ADD COLUMN reserved bigint NOT NULL DEFAULT 0;

-- The processes that publish. One that stops removes its row once it has saved how far
-- the log came.
CREATE TABLE event_log_writers (
    writer    text PRIMARY KEY,
    opened_at timestamptz NOT NULL DEFAULT now()
);
