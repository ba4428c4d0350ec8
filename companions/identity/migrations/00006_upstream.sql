-- +goose Up
-- Accounts at other OpenID providers with which users of this service sign in. The row of
-- a closed account stays, so that its person does not come back by signing in.
CREATE TABLE identity.external_accounts (
    id           text PRIMARY KEY,
    issuer       text NOT NULL,
    subject      text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    user_id      text NOT NULL REFERENCES identity.users (id),
    provider     text NOT NULL, -- id in the configuration, when it was linked
    email        text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (issuer, subject)
);
CREATE INDEX external_accounts_user ON identity.external_accounts (user_id, id);
