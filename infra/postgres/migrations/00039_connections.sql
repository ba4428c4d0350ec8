-- +goose Up

-- What the command of a call connected to, or was kept from; null: nothing.
ALTER TABLE tool_calls ADD COLUMN connections jsonb;

-- +goose Down
SELECT 1;
