-- +goose Up

CREATE TABLE identity.users (
    id            text PRIMARY KEY,
    username      text NOT NULL CHECK (length(username) BETWEEN 1 AND 128),
    name          text NOT NULL DEFAULT '',
    email         text NOT NULL DEFAULT '',
    administrator boolean NOT NULL DEFAULT false,
    first         boolean NOT NULL DEFAULT false, -- the administrator that the first start made
    password_hash text NOT NULL, -- argon2id, with its parameters
    version       bigint NOT NULL DEFAULT 1, -- grows with each change of what tokens say of the user
    created_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz,
    -- A disabled account keeps its data and its name, but opens nothing.
    disabled      boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX users_username ON identity.users (lower(username)) WHERE deleted_at IS NULL;
CREATE INDEX users_email ON identity.users (lower(email)) WHERE deleted_at IS NULL AND email <> '';
CREATE INDEX users_administrators ON identity.users (id) WHERE administrator AND NOT disabled AND deleted_at IS NULL;

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
    cookie_hash  bytea CHECK (length(cookie_hash) = 32) UNIQUE,
    address      text NOT NULL DEFAULT '',
    user_agent   text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    refreshed_at timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    ended_by     text NOT NULL DEFAULT '',
    -- A session of a client of the OpenID provider: it has no cookie, and ends with the
    -- session of the browser in which the person signed in.
    client_id    text NOT NULL DEFAULT '',
    scope        text NOT NULL DEFAULT '',
    parent_id    text REFERENCES identity.sessions (id) ON DELETE SET NULL,
    signed_in_at timestamptz NOT NULL DEFAULT now(), -- when the password was given
    last_used_at timestamptz NOT NULL DEFAULT now(),
    -- How the person of a session signed in, as `amr` of its ID tokens (RFC 8176), separated by spaces.
    amr          text NOT NULL DEFAULT 'pwd',
    CONSTRAINT sessions_kind CHECK ((client_id = '') = (cookie_hash IS NOT NULL))
);
CREATE INDEX sessions_user ON identity.sessions (user_id, id) WHERE ended_at IS NULL;
CREATE INDEX sessions_expiry ON identity.sessions (expires_at);
CREATE INDEX sessions_parent ON identity.sessions (parent_id) WHERE parent_id IS NOT NULL;
-- Wrong passwords from an address with a session of the user, ended ones too, count for that address alone.
CREATE INDEX sessions_of_user ON identity.sessions (user_id, id) WHERE client_id = '';

-- Refresh tokens of sessions. A second use of a token means that it or its successor was
-- stolen, and ends the session.
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
    hash       bytea NOT NULL CHECK (length(hash) = 32) UNIQUE,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    -- A personal token lives for a year.
    expires_at timestamptz NOT NULL DEFAULT (now() + '1 year'::interval)
);
CREATE UNIQUE INDEX personal_tokens_name ON identity.personal_tokens (user_id, name) WHERE revoked_at IS NULL;
-- Revoked tokens are removed by their age.
CREATE INDEX personal_tokens_revoked ON identity.personal_tokens (revoked_at) WHERE revoked_at IS NOT NULL;

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

-- Authorization codes. A used one stays for some time: the tokens that were made with it
-- end when it comes again.
CREATE TABLE identity.authorization_codes (
    hash         bytea PRIMARY KEY CHECK (length(hash) = 32),
    user_id      text NOT NULL REFERENCES identity.users (id),
    parent_id    text NOT NULL REFERENCES identity.sessions (id) ON DELETE CASCADE,
    client_id    text NOT NULL,
    redirect_uri text NOT NULL,
    scope        text NOT NULL,
    nonce        text NOT NULL,
    challenge    text NOT NULL, -- of PKCE, S256
    created_at   timestamptz NOT NULL DEFAULT now(),
    used_at      timestamptz,
    session_id   text REFERENCES identity.sessions (id) ON DELETE SET NULL
);
CREATE INDEX authorization_codes_parent ON identity.authorization_codes (parent_id, created_at);
CREATE INDEX authorization_codes_session ON identity.authorization_codes (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX authorization_codes_age ON identity.authorization_codes (created_at);

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

-- Keys of WebAuthn authenticators, which sign people in without a password.
CREATE TABLE identity.passkeys (
    id            text PRIMARY KEY,
    user_id       text NOT NULL REFERENCES identity.users (id),
    credential_id bytea NOT NULL CHECK (length(credential_id) BETWEEN 1 AND 1023) UNIQUE,
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

-- Clients of the OpenID provider that may act as a person, as the person has allowed, with
-- all scopes that were granted, separated by spaces.
CREATE TABLE identity.consents (
    user_id    text NOT NULL REFERENCES identity.users (id),
    client_id  text NOT NULL,
    scope      text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, client_id)
);
