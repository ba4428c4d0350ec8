-- +goose Up

-- The faults of a loop's model calls since one last succeeded: of the main loop
-- with its chat, of a sub-agent with its loop. They outlive workers, runs and
-- deploys, which Temporal's count of attempts does not.
ALTER TABLE chats
    ADD COLUMN model_faults       integer NOT NULL DEFAULT 0 CHECK (model_faults >= 0),
    ADD COLUMN model_faults_since timestamptz, -- the first of them
    ADD COLUMN model_retry_at     timestamptz; -- no model call before this
ALTER TABLE loops
    ADD COLUMN model_faults       integer NOT NULL DEFAULT 0 CHECK (model_faults >= 0),
    ADD COLUMN model_faults_since timestamptz,
    ADD COLUMN model_retry_at     timestamptz;

-- +goose Down
SELECT 1;
