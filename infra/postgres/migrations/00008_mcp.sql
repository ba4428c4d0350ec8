-- +goose Up

-- Tool servers that sessions may use (Model Context Protocol).
CREATE TABLE mcp_servers (
    id          text PRIMARY KEY,
    scope       text NOT NULL CHECK (scope IN ('service', 'solution', 'session')),
    solution_id text,
    session_id  text REFERENCES sessions (id),
    owner_id    text NOT NULL REFERENCES users (id),
    name        text NOT NULL CHECK (name ~ '^[a-z0-9_-]{1,64}$'),
    transport   text NOT NULL CHECK (transport IN ('stdio', 'http')),
    command     text NOT NULL DEFAULT '',
    args        text[] NOT NULL DEFAULT '{}',
    url         text NOT NULL DEFAULT '',
    sealed      bytea NOT NULL,              -- environment and headers, encrypted
    tools       text[] NOT NULL DEFAULT '{}', -- the only ones offered; empty: all
    timeout_s   int NOT NULL,
    enabled     boolean NOT NULL,
    trust_hints boolean NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CHECK ((scope = 'solution') = (solution_id IS NOT NULL) AND (scope = 'session') = (session_id IS NOT NULL))
);
CREATE UNIQUE INDEX mcp_servers_service ON mcp_servers (name) WHERE scope = 'service';
CREATE UNIQUE INDEX mcp_servers_solution ON mcp_servers (solution_id, owner_id, name) WHERE scope = 'solution';
CREATE UNIQUE INDEX mcp_servers_session ON mcp_servers (session_id, name) WHERE session_id IS NOT NULL;
CREATE INDEX mcp_servers_owner ON mcp_servers (owner_id, id);

-- The last known state of sessions' connections with them.
CREATE TABLE mcp_connections (
    session_id  text NOT NULL REFERENCES sessions (id),
    name        text NOT NULL,
    fingerprint text NOT NULL,
    status      text NOT NULL CHECK (status IN ('connecting', 'connected', 'failed')),
    error       text NOT NULL DEFAULT '',
    tools       jsonb NOT NULL DEFAULT '[]',
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, name)
);

-- +goose Down
SELECT 1;
