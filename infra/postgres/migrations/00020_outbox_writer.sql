-- +goose Up

-- The process that wrote a row, so that another one's next change of the session
-- can see that it must not overtake it.
ALTER TABLE outbox ADD COLUMN writer text NOT NULL DEFAULT '';

-- +goose Down
SELECT 1;
