-- +goose Up
-- What a model server sent in a message or in a tool call beside the members of the
-- interface, as a JSON object that goes back to it unchanged; '': nothing.

ALTER TABLE entries ADD COLUMN server_members text NOT NULL DEFAULT '';

ALTER TABLE tool_calls ADD COLUMN server_members text NOT NULL DEFAULT '';

-- +goose Down
SELECT 1;
