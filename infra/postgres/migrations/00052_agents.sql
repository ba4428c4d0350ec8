-- +goose Up

-- Pairs of users who are members of the same workspace. There are no workspaces yet:
-- the migration that makes them replaces the view.
CREATE VIEW workspace_peers AS SELECT ''::text AS user_id, ''::text AS peer_id WHERE false;

-- Production agents: templates of sessions and of agent instances.
CREATE TABLE prod_agents (
    id               text PRIMARY KEY,
    owner_id         text NOT NULL REFERENCES users (id),
    agent_id         text NOT NULL CHECK (length(agent_id) BETWEEN 1 AND 128),
    name             text NOT NULL,
    icon             text NOT NULL,
    solution_id      text NOT NULL,
    biz_role_id      text NOT NULL,
    agent_template   text NOT NULL,
    instructions     text NOT NULL,
    initial_mode     text CHECK (initial_mode IN ('executing', 'planning')),
    skills           jsonb NOT NULL,
    skills_data      jsonb NOT NULL,
    init_script      text NOT NULL,
    layout_type      text NOT NULL,
    preview_urls     jsonb NOT NULL,
    runtime_provider text NOT NULL,
    visibility       text NOT NULL CHECK (visibility IN ('private', 'workspace')),
    version          int NOT NULL DEFAULT 1,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    UNIQUE (owner_id, agent_id)
);
CREATE INDEX prod_agents_owner ON prod_agents (owner_id, id DESC);

-- Where agent instances work: the workers that announce the same provider and name.
CREATE TABLE agent_runtimes (
    id           text PRIMARY KEY,
    provider     text NOT NULL,
    name         text NOT NULL,
    mode         text NOT NULL CHECK (mode IN ('local', 'cloud', 'builtin')),
    version      text NOT NULL DEFAULT '',
    device       jsonb NOT NULL DEFAULT '{}',
    last_seen_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (provider, name)
);
INSERT INTO agent_runtimes (id, provider, name, mode) VALUES ('builtin', 'builtin', 'builtin', 'builtin');

-- What each worker has announced. A worker of an older version announces nothing of it.
ALTER TABLE workers
    ADD COLUMN runtime_id  text NOT NULL DEFAULT 'builtin' REFERENCES agent_runtimes (id),
    ADD COLUMN slots       int NOT NULL DEFAULT 0,
    ADD COLUMN used        int NOT NULL DEFAULT 0,
    ADD COLUMN draining_at timestamptz; -- it ends what it has begun since
CREATE INDEX workers_runtime ON workers (runtime_id);

-- Agents at work. The template is what the production agent was, as JSON.
CREATE TABLE agent_instances (
    id                   text PRIMARY KEY,
    owner_id             text NOT NULL REFERENCES users (id),
    record_id            text REFERENCES prod_agents (id) ON DELETE SET NULL,
    runtime_id           text NOT NULL REFERENCES agent_runtimes (id),
    name                 text NOT NULL,
    icon                 text NOT NULL,
    description          text NOT NULL DEFAULT '',
    instructions         text NOT NULL,
    template             jsonb NOT NULL,
    model                text,
    max_concurrent_tasks int NOT NULL,
    env                  jsonb NOT NULL DEFAULT '{}',
    env_keys             int NOT NULL DEFAULT 0,
    visibility           text NOT NULL CHECK (visibility IN ('private', 'workspace')),
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now(),
    archived_at          timestamptz
);
CREATE INDEX agent_instances_owner ON agent_instances (owner_id, id DESC);
CREATE INDEX agent_instances_record ON agent_instances (record_id) WHERE record_id IS NOT NULL;
CREATE INDEX agent_instances_runtime ON agent_instances (runtime_id);

-- The sessions of agent instances. The instance may be gone.
CREATE TABLE agent_sessions (
    session_id  text PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    instance_id text NOT NULL
);
CREATE INDEX agent_sessions_instance ON agent_sessions (instance_id, session_id DESC);

-- A script that a session runs once, as a background task, before its first chat goes
-- on: the task, and its text.
ALTER TABLE sessions ADD COLUMN init_task_id text;
ALTER TABLE background_tasks ADD COLUMN script text;

-- +goose Down
SELECT 1;
