-- +goose Up

-- seq is the event's place in the event log, NULL until it is published. A published
-- row stays for some seconds, so that an event log that lost its last second in a
-- power cut gets it again. after_seq is a place that the log had reached before the
-- event was first published: a search for the event begins there.
-- maybe_published says that an earlier try may be in the log without a message id.
ALTER TABLE outbox
    ADD COLUMN seq             bigint,
    ADD COLUMN published_at    timestamptz,
    ADD COLUMN after_seq       bigint  NOT NULL DEFAULT 0,
    ADD COLUMN maybe_published boolean NOT NULL DEFAULT false;

-- +goose Down
SELECT 1;
