-- +goose Up

-- How often the reconciler has let the chat go on in a new run since it last made
-- progress, the progress at that time, and the last run that was counted as lost.
-- force_failed is why an administrator wants the chat to fail instead.
ALTER TABLE chats
    ADD COLUMN restarts      int NOT NULL DEFAULT 0,
    ADD COLUMN restart_steps int NOT NULL DEFAULT 0,
    ADD COLUMN restarted_run text,
    ADD COLUMN force_failed  text;

-- +goose Down
SELECT 1;
