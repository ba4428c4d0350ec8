-- +goose Up

ALTER TABLE idempotency_keys
    ADD COLUMN holder text NOT NULL DEFAULT ''; -- host and address of the server that runs the first request
