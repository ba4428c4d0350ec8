-- +goose Up
-- A disabled account keeps its data and its name, but opens nothing.
ALTER TABLE identity.users ADD COLUMN disabled boolean NOT NULL DEFAULT false;
CREATE INDEX users_administrators ON identity.users (id) WHERE administrator AND NOT disabled AND deleted_at IS NULL;

ALTER TABLE identity.sessions ADD COLUMN last_used_at timestamptz NOT NULL DEFAULT now();
UPDATE identity.sessions SET last_used_at = refreshed_at;
