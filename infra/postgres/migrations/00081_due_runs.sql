-- +goose Up

-- When the tick of a run was due with its jitter, from which its drift counts; null, in older
-- rows: scheduled_for.
ALTER TABLE scheduled_runs ADD COLUMN due_at timestamptz;

-- +goose Down
ALTER TABLE scheduled_runs DROP COLUMN due_at;
