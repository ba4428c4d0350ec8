-- +goose Up
-- Who does an entry of the task list, and the entries that come before it.
ALTER TABLE session_tasks
    ADD COLUMN owner      text CHECK (length(owner) BETWEEN 1 AND 200),
    ADD COLUMN blocked_by text[] NOT NULL DEFAULT '{}';
