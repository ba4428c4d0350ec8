-- +goose Up

-- Skills that a user has installed from the registry, for all of their sessions.
-- The packages are directories named by their digest.
CREATE TABLE installed_skills (
    owner_id     text NOT NULL REFERENCES users (id),
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    org          text NOT NULL,
    version      text NOT NULL,
    digest       text NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner_id, name)
);

-- Packages in the workspaces of sessions, as they were when they came or were
-- last read again.
CREATE TABLE session_skills (
    session_id   text NOT NULL REFERENCES sessions (id),
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    source       text NOT NULL CHECK (source IN ('registry', 'uploaded')),
    org          text NOT NULL DEFAULT '',
    version      text NOT NULL DEFAULT '',
    digest       text NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, name)
);

-- Which version of a skill the model of a session has read.
CREATE TABLE skill_loads (
    session_id text NOT NULL REFERENCES sessions (id),
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    digest     text NOT NULL,
    loaded_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, name)
);

-- The version of its primary skill that a session keeps to.
CREATE TABLE skill_snapshots (
    session_id  text PRIMARY KEY REFERENCES sessions (id),
    skill_id    text NOT NULL,
    org         text NOT NULL DEFAULT '',
    name        text NOT NULL,
    version     text NOT NULL DEFAULT '',
    digest      text NOT NULL,
    path        text NOT NULL,
    files_count int NOT NULL,
    taken_at    timestamptz NOT NULL DEFAULT now()
);

-- The statistics of skills come from the ledger of tool calls.
CREATE INDEX tool_calls_skill ON tool_calls (session_id, created_at DESC) WHERE tool_name = 'Skill';

-- +goose Down
SELECT 1;
