-- +goose Up

-- Until when a process has the update of the task's schedule in Temporal; NULL: none.
ALTER TABLE scheduled_tasks ADD COLUMN sync_until timestamptz;

-- +goose Down
SELECT 1;
