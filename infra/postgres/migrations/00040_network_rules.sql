-- +goose Up

-- Domains that a user allows or denies the commands of all their sessions.
CREATE TABLE network_rules (
    id         text PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users (id),
    domain     text NOT NULL CHECK (length(domain) BETWEEN 1 AND 300),
    decision   text NOT NULL CHECK (decision IN ('allow', 'deny')),
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (user_id, domain)
);

-- +goose Down
SELECT 1;
