-- +goose Up

-- The images of a call's result, which are attachments of the session; null: none.
ALTER TABLE tool_calls ADD COLUMN images jsonb;

-- What images of results a session has, for the bound of their bytes.
CREATE INDEX tool_calls_images ON tool_calls (session_id) WHERE images IS NOT NULL;

-- +goose Down
DROP INDEX tool_calls_images;
ALTER TABLE tool_calls DROP COLUMN images;
