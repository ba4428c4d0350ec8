-- +goose Up

-- Sub-agents. A loop has the id of the Agent call that owns it, and is reserved
-- with it: reserved → queued (it wants a slot) → running ⇄ waiting (only an
-- answer can move it) → ended. Its turns are the entries with its loop_id.
CREATE TABLE loops (
    id             text PRIMARY KEY REFERENCES tool_calls (id),
    session_id     text NOT NULL REFERENCES sessions (id),
    chat_id        text NOT NULL REFERENCES chats (id),
    branch_id      text NOT NULL REFERENCES branches (id),
    parent_loop_id text NOT NULL,              -- 'root', or another loop
    task_id        text,                       -- of the background task that it belongs to; null: it ends with its chat
    background     boolean NOT NULL DEFAULT false, -- it is that task, not a sub-agent of it
    depth          int NOT NULL CHECK (depth > 0),
    agent_type     text NOT NULL,
    description    text NOT NULL,
    instructions   text NOT NULL DEFAULT '',   -- of its type, for the system prompt
    prompt         text NOT NULL,
    tools          text[],                     -- names of its only tools; null: all
    model          text,
    max_steps      int NOT NULL,
    time_limit_s   bigint NOT NULL,
    state          text NOT NULL DEFAULT 'reserved' CHECK (state IN ('reserved', 'queued', 'running', 'waiting', 'ended')),
    result         text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT now(),
    started_at     timestamptz,
    ended_at       timestamptz
);
CREATE INDEX loops_open ON loops (chat_id, id) WHERE state <> 'ended';
CREATE INDEX loops_session ON loops (session_id);
CREATE INDEX loops_task ON loops (task_id) WHERE task_id IS NOT NULL;

-- Which sub-agent asks; null: the main loop.
ALTER TABLE questions ADD COLUMN source_loop jsonb;

-- +goose Down
SELECT 1;
