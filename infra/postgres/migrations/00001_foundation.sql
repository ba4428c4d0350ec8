-- +goose Up

-- Who may come in.
CREATE TABLE users (
    id            text PRIMARY KEY,
    username      text NOT NULL CHECK (length(username) BETWEEN 1 AND 128),
    name          text NOT NULL DEFAULT '',
    email         text NOT NULL DEFAULT '',
    avatar_url    text,
    administrator boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz
);
CREATE UNIQUE INDEX users_username ON users (lower(username)) WHERE deleted_at IS NULL;

CREATE TABLE api_keys (
    id           text PRIMARY KEY,
    user_id      text NOT NULL REFERENCES users (id),
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 50),
    hash         bytea NOT NULL UNIQUE CHECK (length(hash) = 32), -- SHA-256; the key itself is never kept
    masked       text NOT NULL,
    scopes       text[] NOT NULL DEFAULT '{}',
    bootstrap    boolean NOT NULL DEFAULT false, -- the first administrator's, made at start
    expires_at   timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX api_keys_user ON api_keys (user_id, id DESC) WHERE revoked_at IS NULL;

-- Answers to mutating requests that carried an Idempotency-Key, kept 24 h.
CREATE TABLE idempotency_keys (
    user_id      text NOT NULL,
    key          text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    request      bytea NOT NULL,    -- SHA-256 of method, path and body
    status       int,               -- null while the first request runs, or when its answer held a secret
    content_type text,
    response     bytea,
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz,       -- null while the first request runs
    PRIMARY KEY (user_id, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

CREATE TABLE audit (
    id         text PRIMARY KEY,
    actor_id   text NOT NULL,
    action     text NOT NULL,
    target     text NOT NULL,
    details    jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX audit_newest ON audit (id DESC);

-- Sessions and their conversation tree.
CREATE SEQUENCE sandbox_uids MINVALUE 100001 MAXVALUE 2000000000;

CREATE TABLE sessions (
    id                  text PRIMARY KEY,
    owner_id            text NOT NULL REFERENCES users (id),
    intent              text NOT NULL DEFAULT '',
    status              text NOT NULL DEFAULT 'created'
        CHECK (status IN ('created', 'running', 'completed', 'failed', 'interrupted', 'waiting_for_input')),
    solution_id         text,
    biz_role_id         text,
    template_id         text,
    primary_skill_id    text,
    model               text,
    software_factory_id bigint,
    workspace_id        text,
    mode                text NOT NULL DEFAULT 'executing' CHECK (mode IN ('planning', 'executing')),
    shared              boolean NOT NULL DEFAULT false,
    is_pinned           boolean NOT NULL DEFAULT false,
    memory_enabled      boolean NOT NULL DEFAULT false,
    is_persistent       boolean NOT NULL DEFAULT false,
    env                 jsonb NOT NULL DEFAULT '{}',
    disable_tools       text[] NOT NULL DEFAULT '{}',
    sandbox_uid         int NOT NULL DEFAULT nextval('sandbox_uids'),
    active_branch_id    text NOT NULL,
    active_chat_id      text,  -- the chat that holds the session; set and cleared under the row lock
    intent_from_message boolean NOT NULL DEFAULT true, -- the intent may be taken from the first message
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    deleted_at          timestamptz
);
CREATE INDEX sessions_of_owner ON sessions (owner_id, is_pinned DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX sessions_running ON sessions (id) WHERE status IN ('running', 'waiting_for_input') AND deleted_at IS NULL;

-- A branch numbers its entries from fork_sequence on; what lies before is read
-- from its ancestors, as lineage says: [{"branch_id": …, "upto": n}], own branch last.
CREATE TABLE branches (
    id               text PRIMARY KEY,
    session_id       text NOT NULL REFERENCES sessions (id),
    parent_branch_id text REFERENCES branches (id),
    fork_sequence    bigint NOT NULL DEFAULT 0,
    next_sequence    bigint NOT NULL DEFAULT 0,
    lineage          jsonb NOT NULL DEFAULT '[]',
    reason           text NOT NULL DEFAULT 'root' CHECK (reason IN ('root', 'rewind', 'whatif', 'fork')),
    name             text,
    created_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX branches_session ON branches (session_id);

-- A chat is one durable run of the agent loop, from chat:start to chat:end; a
-- chat that continues after an answer keeps its row.
CREATE TABLE chats (
    id             text PRIMARY KEY,
    session_id     text NOT NULL REFERENCES sessions (id),
    branch_id      text NOT NULL REFERENCES branches (id),
    trigger        text NOT NULL,
    mode           text NOT NULL,
    headless       boolean NOT NULL DEFAULT false,
    output_schema  jsonb,
    model          text,
    state          text NOT NULL CHECK (state IN ('queued', 'running', 'parked', 'ended')),
    workflow_id    text,
    run_id         text,
    steps          int NOT NULL DEFAULT 0,
    input_tokens   bigint NOT NULL DEFAULT 0,
    output_tokens  bigint NOT NULL DEFAULT 0,
    round          int NOT NULL DEFAULT 0,    -- chat:starts so far, resumptions after a crash not counted
    waiting_reason text NOT NULL DEFAULT 'queued',
    waiting_until  timestamptz,               -- the next try of a rate-limited model call
    stop_requested boolean NOT NULL DEFAULT false,
    wake_pending   boolean NOT NULL DEFAULT false, -- its parked run has yet to hear that it goes on or is closed
    schema_tries   int NOT NULL DEFAULT 0,    -- answers so far that did not fit output_schema
    started_at     timestamptz,               -- of this round
    finish_reason  text,
    error_code     text,
    error_message  text,
    ended_at       timestamptz,
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX chats_session ON chats (session_id, id);
CREATE INDEX chats_open ON chats (id) WHERE state IN ('running', 'parked');

-- Entries are the turns of the conversation, a tree by parent_id.
CREATE TABLE entries (
    id              text PRIMARY KEY,   -- the turn id
    session_id      text NOT NULL REFERENCES sessions (id),
    branch_id       text NOT NULL REFERENCES branches (id),
    sequence        bigint NOT NULL,
    parent_id       text REFERENCES entries (id),
    chat_id         text NOT NULL REFERENCES chats (id),
    loop_id         text NOT NULL DEFAULT 'root',
    parent_fork_tool_call_id text,
    kind            text NOT NULL DEFAULT 'message' CHECK (kind IN ('message', 'compaction')),
    role            text NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
    status          text NOT NULL CHECK (status IN ('streaming', 'completed', 'paused', 'failed', 'interrupted')),
    step            int NOT NULL DEFAULT 0,     -- the model call of its loop that made it, from 1
    attempt         int NOT NULL DEFAULT 0,     -- fences a stalled worker: writes are conditional on it; 0: free to be taken
    max_attempt     int NOT NULL DEFAULT 0,     -- the highest attempt given out
    blocks          jsonb NOT NULL DEFAULT '[]',
    parts           jsonb,                      -- what the client sent, images as object references (user turns)
    model           text NOT NULL DEFAULT '',
    input_tokens    bigint NOT NULL DEFAULT 0,
    output_tokens   bigint NOT NULL DEFAULT 0,
    duration_ms     bigint NOT NULL DEFAULT 0,
    context_window  bigint NOT NULL DEFAULT 0,
    memory_refs     jsonb,
    deprecated      boolean NOT NULL DEFAULT false,
    failure_reason  text,
    flushed_seq     bigint NOT NULL DEFAULT 0,  -- the log position up to which blocks hold the stream
    compaction      jsonb,
    started_at      timestamptz NOT NULL DEFAULT now(),
    ended_at        timestamptz,
    UNIQUE (branch_id, sequence)
);
CREATE INDEX entries_session ON entries (session_id, id DESC);
CREATE INDEX entries_session_open ON entries (session_id) WHERE status IN ('streaming', 'paused');
CREATE INDEX entries_step ON entries (chat_id, loop_id, step);

-- The ledger of tool calls: reserved (queued) → running → finished by
-- compare-and-set, so that no effect happens twice.
CREATE TABLE tool_calls (
    id           text PRIMARY KEY,
    session_id   text NOT NULL REFERENCES sessions (id),
    chat_id      text NOT NULL REFERENCES chats (id),
    entry_id     text NOT NULL REFERENCES entries (id),
    position     int NOT NULL,
    tool_name    text NOT NULL,
    display_name text NOT NULL,
    arguments    text NOT NULL,
    status       text NOT NULL CHECK (status IN ('pending', 'done', 'error', 'cancelled', 'awaiting_answer')),
    phase        text NOT NULL CHECK (phase IN ('queued', 'running', 'finished', 'unknown_outcome')),
    attempt      int NOT NULL DEFAULT 0,
    lease_until  timestamptz,               -- the worker that runs it is alive until then, at least
    result       text NOT NULL DEFAULT '',
    started_at   timestamptz,
    duration_ms  bigint NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (entry_id, position)
);
CREATE INDEX tool_calls_open ON tool_calls (chat_id) WHERE status IN ('pending', 'awaiting_answer');

CREATE TABLE questions (
    id           text PRIMARY KEY,
    session_id   text NOT NULL REFERENCES sessions (id),
    chat_id      text NOT NULL REFERENCES chats (id),
    entry_id     text NOT NULL REFERENCES entries (id),
    tool_call_id text NOT NULL UNIQUE REFERENCES tool_calls (id),
    loop_id      text NOT NULL,
    questions    jsonb NOT NULL,
    state        text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'answered', 'cancelled')),
    answer       jsonb,
    resolved_by  text,
    asked_at     timestamptz NOT NULL DEFAULT now(),
    resolved_at  timestamptz
);
CREATE INDEX questions_open ON questions (session_id) WHERE state = 'open';

-- The inbox is the promise behind an ack: what was sent and is not yet taken up.
CREATE TABLE inbox (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id        text NOT NULL REFERENCES sessions (id),
    client_message_id text,
    kind              text NOT NULL CHECK (kind IN ('message', 'steer')),
    chat_id           text NOT NULL REFERENCES chats (id),
    turn_id           text NOT NULL UNIQUE,
    delivery_applied  text NOT NULL,
    position          int NOT NULL,
    parts             jsonb NOT NULL,
    state             text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'taken', 'cancelled')),
    front             boolean NOT NULL DEFAULT false, -- an interrupting message goes before the queue
    created_at        timestamptz NOT NULL DEFAULT now(),
    UNIQUE (session_id, client_message_id)
);
CREATE INDEX inbox_queued ON inbox (session_id, front DESC, id) WHERE state = 'queued';

-- Events of a state change are written with it and published after it; a row
-- left behind by a crash is published by a periodic job, if the log lacks it.
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id   text NOT NULL,
    session_id text NOT NULL,
    chat_id    text NOT NULL DEFAULT '',
    name       text NOT NULL,
    data       json NOT NULL,     -- json, not jsonb: kept as written, U+0000 escapes included
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_session ON outbox (session_id, id);

-- One row: how far the event log's numbers have come, so that they grow even
-- when the log was lost.
CREATE TABLE event_log (
    id         boolean PRIMARY KEY DEFAULT true CHECK (id),
    high_water bigint NOT NULL
);

-- Work that outlives the chat that started it, and the agent's own task list.
CREATE TABLE background_tasks (
    id             text PRIMARY KEY,
    session_id     text NOT NULL REFERENCES sessions (id),
    chat_id        text,
    tool_call_id   text,
    kind           text NOT NULL CHECK (kind IN ('shell', 'agent', 'schedule', 'publish')),
    title          text NOT NULL,
    command        text,
    status         text NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'stopped', 'lost')),
    pid            int,
    exit_code      int,
    reason         text,
    output_path    text NOT NULL DEFAULT '',
    output_bytes   bigint NOT NULL DEFAULT 0,
    owner_run_id   text NOT NULL DEFAULT '',
    attempt        int NOT NULL DEFAULT 0,
    stop_requested boolean NOT NULL DEFAULT false,
    lease_expires_at timestamptz,
    started_at     timestamptz NOT NULL DEFAULT now(),
    last_output_at timestamptz,
    finished_at    timestamptz
);
CREATE INDEX background_tasks_session ON background_tasks (session_id, id DESC);
CREATE INDEX background_tasks_running ON background_tasks (id) WHERE status = 'running';

CREATE TABLE session_tasks (
    id          text PRIMARY KEY,
    session_id  text NOT NULL REFERENCES sessions (id),
    subject     text NOT NULL CHECK (length(subject) BETWEEN 1 AND 500),
    description text NOT NULL DEFAULT '',
    status      text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'in_progress', 'completed', 'cancelled')),
    position    int NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (session_id, position)
);

-- What the agent has read in a session: Edit refuses a file that was not read,
-- or that changed since.
CREATE TABLE file_reads (
    session_id text NOT NULL REFERENCES sessions (id),
    path       text NOT NULL,
    etag       text NOT NULL,
    read_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, path)
);

-- +goose Down
SELECT 1;
