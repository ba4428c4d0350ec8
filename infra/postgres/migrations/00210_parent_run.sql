-- +goose Up
-- What a session was made for, as operators search for it in Temporal: task/<id>, dag/<solution>/<run> or issue/<id>.
ALTER TABLE sessions ADD COLUMN parent_run text NOT NULL DEFAULT '';
