-- +goose Up
-- Keys of WebAuthn authenticators, which sign people in without a password.
CREATE TABLE identity.passkeys (
    id            text PRIMARY KEY,
    user_id       text NOT NULL REFERENCES identity.users (id),
    credential_id bytea NOT NULL UNIQUE CHECK (length(credential_id) BETWEEN 1 AND 1023),
    name          text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    credential    jsonb NOT NULL, -- public key, counter and flags, as the library keeps them
    created_at    timestamptz NOT NULL DEFAULT now(),
    last_used_at  timestamptz
);
CREATE INDEX passkeys_user ON identity.passkeys (user_id, id);

-- Challenges that a passkey has answered: an answer counts once.
CREATE TABLE identity.used_challenges (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX used_challenges_at ON identity.used_challenges (at);
