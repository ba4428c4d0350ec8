-- +goose Up

-- A node of a DAG may name the answer that counts when no user answers in time, and the
-- user who may answer once its question is escalated.
ALTER TABLE questions
    ADD COLUMN escalated_to text,
    DROP CONSTRAINT questions_default_policy_check,
    ADD CONSTRAINT questions_default_policy_check CHECK (default_policy IN ('choose', 'first_option', 'answer'));
CREATE INDEX questions_escalated ON questions (escalated_to) WHERE state = 'open' AND escalated_to IS NOT NULL;

-- +goose Down
SELECT 1;
