-- +goose Up
-- What a model server needs back of its own answers.

ALTER TABLE tool_calls
    ADD COLUMN server_call_id text NOT NULL DEFAULT '';    -- the id that the model server gave the call; '': none

ALTER TABLE entries
    ADD COLUMN reasoning_field text NOT NULL DEFAULT ''    -- the field in which the model server sent the turn's thinking; '': none
        CHECK (reasoning_field IN ('', 'reasoning_content', 'reasoning'));

-- +goose Down
SELECT 1;
