-- +goose Up

-- Runs of agents that work on issues. One is open for an issue at a time.
CREATE TABLE issue_runs (
    id                 text PRIMARY KEY,
    issue_id           text NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    agent_id           text NOT NULL, -- the instance, which may be gone
    squad_id           text,          -- of which the agent is the leader
    runtime_id         text NOT NULL,
    status             text NOT NULL CHECK (status IN ('queued', 'dispatched', 'running', 'completed', 'failed', 'cancelled')),
    trigger_kind       text NOT NULL CHECK (trigger_kind IN ('assign', 'comment', 'manual', 'retry')),
    trigger_comment_id text,
    trigger_summary    text NOT NULL,
    handoff_note       text NOT NULL DEFAULT '',
    attempt            int NOT NULL,
    max_attempts       int NOT NULL,
    parent_run_id      text,
    owner_id           text NOT NULL DEFAULT '', -- of its session
    session_id         text,                     -- it may be gone
    continues          boolean NOT NULL DEFAULT false, -- the session knows the issue already
    chat_id            text,                     -- the last one; it may be gone
    round              int NOT NULL DEFAULT 1,   -- of its messages
    seen_comment       text NOT NULL DEFAULT '', -- the last one that the agent got
    upto_comment       text,                     -- the last one that the message holds which is being sent
    told_comments      text[] NOT NULL DEFAULT '{}', -- that answered its questions
    coalesced          text[] NOT NULL DEFAULT '{}', -- that came while it worked, and began another round
    cancel_requested   boolean NOT NULL DEFAULT false,
    reason_code        text,
    error              text,
    result             text,
    model              text NOT NULL DEFAULT '',
    input_tokens       bigint NOT NULL DEFAULT 0, -- of its chats that have ended
    output_tokens      bigint NOT NULL DEFAULT 0,
    created_at         timestamptz NOT NULL DEFAULT now(),
    dispatched_at      timestamptz,
    started_at         timestamptz,
    finished_at        timestamptz
);
CREATE INDEX issue_runs_issue ON issue_runs (issue_id, id DESC);
CREATE UNIQUE INDEX issue_runs_active ON issue_runs (issue_id) WHERE status IN ('queued', 'dispatched', 'running') AND NOT cancel_requested;
CREATE INDEX issue_runs_agent ON issue_runs (agent_id, id) WHERE status IN ('queued', 'dispatched', 'running');
CREATE INDEX issue_runs_open ON issue_runs (id) WHERE status IN ('queued', 'dispatched', 'running');

-- +goose Down
SELECT 1;
