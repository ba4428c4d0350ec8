-- +goose Up

-- Runs that were ended before their chats: the stops of the chats are repeated until they
-- were taken.
CREATE INDEX issue_runs_stopping ON issue_runs (finished_at) WHERE cancel_requested AND finished_at IS NOT NULL;
CREATE INDEX scheduled_runs_stopping ON scheduled_runs (finished_at) WHERE cancel_requested AND finished_at IS NOT NULL;

-- +goose Down
SELECT 1;
