-- +goose Up

-- waiting_reported is the reason that session:updated reported last. Only the sessions that
-- were reported to have no worker are looked for by it.
DROP INDEX sessions_waiting_reported;
CREATE INDEX sessions_without_worker ON sessions (id) WHERE waiting_reported = 'worker_missing';

-- +goose Down
SELECT 1;
