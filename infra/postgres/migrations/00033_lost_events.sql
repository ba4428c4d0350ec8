-- +goose Up

-- lost_seq is where the event log had an event before it lost its end. The event is
-- published again with it, so that a client that has seen it does not get it twice.
ALTER TABLE outbox ADD COLUMN lost_seq bigint;

-- +goose Down
SELECT 1;
