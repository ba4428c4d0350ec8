-- +goose Up
-- A session of a client of the OpenID provider: it has no cookie, and ends with the
-- session of the browser in which the person signed in.
ALTER TABLE identity.sessions
    ALTER COLUMN cookie_hash DROP NOT NULL,
    ADD COLUMN client_id text NOT NULL DEFAULT '',
    ADD COLUMN scope text NOT NULL DEFAULT '',
    ADD COLUMN parent_id text REFERENCES identity.sessions (id) ON DELETE SET NULL,
    ADD COLUMN signed_in_at timestamptz NOT NULL DEFAULT now(), -- when the password was given
    ADD CONSTRAINT sessions_kind CHECK ((client_id = '') = (cookie_hash IS NOT NULL));
UPDATE identity.sessions SET signed_in_at = created_at;
CREATE INDEX sessions_parent ON identity.sessions (parent_id) WHERE parent_id IS NOT NULL;

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
