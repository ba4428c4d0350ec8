-- +goose Up
-- The lease of a running call has ended and was extended once, before another worker takes it over.
ALTER TABLE tool_calls ADD COLUMN takeover_announced boolean NOT NULL DEFAULT false;
