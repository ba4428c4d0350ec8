-- +goose Up

-- Events that are not published yet: looked for with each step, each second and at each
-- scrape. While the event log is unavailable, they are many.
CREATE INDEX outbox_left ON outbox (session_id, id) WHERE seq IS NULL;

-- +goose Down
DROP INDEX outbox_left;
