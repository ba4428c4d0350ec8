-- +goose Up

-- Directories of workspaces that their owners have published. The copy that is
-- served outlives the session.
CREATE TABLE apps (
    id           text PRIMARY KEY,
    owner_id     text NOT NULL REFERENCES users (id),
    session_id   text NOT NULL,
    working_dir  text NOT NULL,
    name         text NOT NULL,
    status       text NOT NULL CHECK (status IN ('building', 'live', 'failed', 'stopped')),
    copy_id      text NOT NULL DEFAULT '',
    published_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    CHECK (status <> 'live' OR copy_id <> '')
);
CREATE UNIQUE INDEX apps_place ON apps (session_id, working_dir) WHERE status <> 'stopped';
CREATE INDEX apps_owner ON apps (owner_id, id DESC);

-- +goose Down
SELECT 1;
