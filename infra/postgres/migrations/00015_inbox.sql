-- +goose Up

-- What waits for a user is looked up among the sessions that can hold a question.
CREATE INDEX sessions_waiting ON sessions (owner_id) WHERE status IN ('running', 'waiting_for_input') AND deleted_at IS NULL;

-- +goose Down
SELECT 1;
