-- +goose Up
CREATE TABLE identity.users (
    id            text PRIMARY KEY,
    username      text NOT NULL CHECK (length(username) BETWEEN 1 AND 128),
    name          text NOT NULL DEFAULT '',
    email         text NOT NULL DEFAULT '',
    administrator boolean NOT NULL DEFAULT false,
    first         boolean NOT NULL DEFAULT false, -- the administrator that the first start made
    password_hash text NOT NULL,                  -- argon2id, with its parameters
    version       bigint NOT NULL DEFAULT 1,      -- grows with each change of what tokens say of the user
    created_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz
);
CREATE UNIQUE INDEX users_username ON identity.users (lower(username)) WHERE deleted_at IS NULL;
CREATE INDEX users_email ON identity.users (lower(email)) WHERE deleted_at IS NULL AND email <> '';

-- Keys that sign access tokens. The newest signs; the others verify until the last
-- token that they signed has expired.
CREATE TABLE identity.signing_keys (
    id         text PRIMARY KEY,
    public     bytea NOT NULL CHECK (length(public) = 32),
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz
);
CREATE UNIQUE INDEX signing_keys_current ON identity.signing_keys ((true)) WHERE retired_at IS NULL;

-- A session is one sign-in: a browser or a program. Secrets are kept as SHA-256.
CREATE TABLE identity.sessions (
    id           text PRIMARY KEY,
    user_id      text NOT NULL REFERENCES identity.users (id),
    cookie_hash  bytea NOT NULL UNIQUE CHECK (length(cookie_hash) = 32),
    address      text NOT NULL DEFAULT '',
    user_agent   text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    refreshed_at timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    ended_by     text NOT NULL DEFAULT ''
);
CREATE INDEX sessions_user ON identity.sessions (user_id, id) WHERE ended_at IS NULL;
CREATE INDEX sessions_expiry ON identity.sessions (expires_at);

-- Every refresh token of a session. One that was used already and comes again was
-- stolen, or its successor was: the session ends.
CREATE TABLE identity.refresh_tokens (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    session_id text NOT NULL REFERENCES identity.sessions (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz
);
CREATE INDEX refresh_tokens_session ON identity.refresh_tokens (session_id, created_at);

-- Personal tokens. The hash finds them, the sealed value is shown again to their user.
CREATE TABLE identity.personal_tokens (
    id         text PRIMARY KEY,
    user_id    text NOT NULL REFERENCES identity.users (id),
    name       text NOT NULL,
    hash       bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);
CREATE UNIQUE INDEX personal_tokens_name ON identity.personal_tokens (user_id, name) WHERE revoked_at IS NULL;

-- What is left of the allowance of wrong passwords, by user name and by address.
CREATE TABLE identity.guesses (
    key   text PRIMARY KEY,
    left_ double precision NOT NULL,
    at    timestamptz NOT NULL
);
CREATE INDEX guesses_at ON identity.guesses (at);

CREATE TABLE identity.audit (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    actor_id   text NOT NULL DEFAULT '',
    action     text NOT NULL,
    target     text NOT NULL DEFAULT '',
    details    jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX audit_time ON identity.audit (created_at);
