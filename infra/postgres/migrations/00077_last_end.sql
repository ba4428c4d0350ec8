-- +goose Up

-- The session's last chat:end, for clients that come after it. json, and not jsonb: a result
-- may have what jsonb refuses (a NUL), and numbers that it rounds.
ALTER TABLE sessions ADD COLUMN last_end json;

-- +goose Down
SELECT 1;
