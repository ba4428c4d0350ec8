-- +goose Up

-- What becomes of a question that no user answers. The times are absolute, so that they
-- hold over restarts.
ALTER TABLE questions
    ADD COLUMN expires_at     timestamptz,
    ADD COLUMN default_policy text CHECK (default_policy IN ('choose', 'first_option')),
    ADD COLUMN escalate_at    timestamptz; -- NULL: never, or done
CREATE INDEX questions_expiring ON questions (expires_at) WHERE state = 'open' AND expires_at IS NOT NULL;
CREATE INDEX questions_escalating ON questions (escalate_at) WHERE state = 'open' AND escalate_at IS NOT NULL;

ALTER TABLE scheduled_tasks ADD COLUMN question_policy jsonb;

-- +goose Down
SELECT 1;
