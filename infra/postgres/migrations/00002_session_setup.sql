-- +goose Up

-- What a session says of its own agent: sub-agents, permissions, budget and the
-- like (domain.SessionSetup).
ALTER TABLE sessions ADD COLUMN setup jsonb NOT NULL DEFAULT '{}';

-- +goose Down
SELECT 1;
