-- +goose Up
-- A personal token lives for a year; those of before, for a year from now.
ALTER TABLE identity.personal_tokens ADD COLUMN expires_at timestamptz NOT NULL DEFAULT now() + interval '1 year';
