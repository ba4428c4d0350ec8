-- +goose Up

-- Whether a session runs commands in the background, and when the last one ended.
CREATE INDEX background_tasks_times ON background_tasks (session_id, finished_at);

-- +goose Down
DROP INDEX background_tasks_times;
