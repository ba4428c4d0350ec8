-- +goose Up

-- Messages of runs that were cancelled before they were sent: a worker that still sends one is
-- refused. The session may not be there yet.
CREATE TABLE cancelled_sends (
    session_id        text NOT NULL,
    client_message_id text NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, client_message_id)
);
CREATE INDEX cancelled_sends_age ON cancelled_sends (created_at);

-- +goose Down
SELECT 1;
