-- +goose Up
-- How the sessions of a task are set up, and the values of its prompt.
ALTER TABLE scheduled_tasks ADD COLUMN setup jsonb NOT NULL DEFAULT '{}';
