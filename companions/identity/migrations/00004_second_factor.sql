-- +goose Up
-- How the person of a session signed in, as `amr` of its ID tokens (RFC 8176), separated by spaces.
ALTER TABLE identity.sessions ADD COLUMN amr text NOT NULL DEFAULT 'pwd';

-- The secret of a user's authenticator app. It is asked for from its confirmation on.
CREATE TABLE identity.totp (
    user_id      text PRIMARY KEY REFERENCES identity.users (id),
    sealed       bytea NOT NULL,
    last_step    bigint NOT NULL DEFAULT 0, -- of the last accepted code: it and older ones are refused
    created_at   timestamptz NOT NULL DEFAULT now(),
    confirmed_at timestamptz
);

-- Codes for a user who has lost the app, each for one use. Secrets are kept as SHA-256.
CREATE TABLE identity.recovery_codes (
    user_id text NOT NULL REFERENCES identity.totp (user_id) ON DELETE CASCADE,
    hash    bytea NOT NULL CHECK (length(hash) = 32),
    used_at timestamptz,
    PRIMARY KEY (user_id, hash)
);
