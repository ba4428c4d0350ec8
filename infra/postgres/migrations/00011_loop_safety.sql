-- +goose Up

-- What the chats of a session have used, sub-agents included, for its budget.
ALTER TABLE sessions
    ADD COLUMN used_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN used_cost   double precision NOT NULL DEFAULT 0;

-- A question that asks for permission holds back the tool call that it guards;
-- allows are the rules that an answer for the whole session adds to its setup.
ALTER TABLE questions
    ADD COLUMN guards text REFERENCES tool_calls (id) ON DELETE CASCADE,
    ADD COLUMN allows jsonb;
CREATE INDEX questions_guards ON questions (guards) WHERE guards IS NOT NULL;

-- +goose Down
SELECT 1;
