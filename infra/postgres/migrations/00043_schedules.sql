-- +goose Up

-- The id of a workflow run that waits for the chat, and is signalled when it has ended.
ALTER TABLE chats
    ADD COLUMN waiter          text,
    ADD COLUMN waiter_notified boolean NOT NULL DEFAULT false;
CREATE INDEX chats_waiters ON chats (id) WHERE waiter IS NOT NULL AND state = 'ended' AND NOT waiter_notified;

-- Prompts that are sent at planned times. The row decides which ticks there are; the
-- schedule of the workflow engine only wakes the service at their times.
CREATE TABLE scheduled_tasks (
    id                     text PRIMARY KEY,
    owner_id               text NOT NULL REFERENCES users (id),
    title                  text NOT NULL,
    prompt                 text NOT NULL,
    cron                   text NOT NULL,
    timezone               text NOT NULL,
    enabled                boolean NOT NULL,
    expires_at             timestamptz,
    skip_confirmations     boolean NOT NULL,
    model                  text,
    persistent             boolean NOT NULL,
    session_id             text, -- of all runs of a persistent task; it may be gone
    overlap                text NOT NULL CHECK (overlap IN ('skip', 'buffer_one', 'buffer_all', 'cancel_other', 'allow_all')),
    catchup_window_s       int NOT NULL,
    pause_on_failure_after int NOT NULL,
    jitter_s               int NOT NULL,
    budget                 jsonb,
    output_schema          jsonb,
    next_run_at            timestamptz, -- the next tick; NULL: there is none
    next_fire_at           timestamptz, -- the same with its jitter
    last_run_at            timestamptz,
    last_status            text,
    consecutive_failures   int NOT NULL DEFAULT 0,
    paused_reason          text,
    version                bigint NOT NULL DEFAULT 1, -- of what the engine's schedule is made of
    synced_version         bigint NOT NULL DEFAULT 0, -- that the engine's schedule has
    synced_until           timestamptz,               -- the last tick that the engine's schedule has
    created_at             timestamptz NOT NULL DEFAULT now(),
    updated_at             timestamptz NOT NULL DEFAULT now(),
    deleted_at             timestamptz -- until the engine's schedule is gone too
);
CREATE INDEX scheduled_tasks_owner ON scheduled_tasks (owner_id, id) WHERE deleted_at IS NULL;
CREATE INDEX scheduled_tasks_stale ON scheduled_tasks (id) WHERE version <> synced_version;
CREATE INDEX scheduled_tasks_due ON scheduled_tasks (next_fire_at) WHERE enabled AND deleted_at IS NULL;

-- One row for each tick of a task, and for each run that was asked for.
CREATE TABLE scheduled_runs (
    id               text PRIMARY KEY,
    task_id          text NOT NULL REFERENCES scheduled_tasks (id) ON DELETE CASCADE,
    manual           boolean NOT NULL,
    state            text NOT NULL CHECK (state IN ('waiting', 'running', 'ended')),
    status           text NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
    outcome          text NOT NULL CHECK (outcome IN ('fired', 'skipped', 'coalesced', 'blocked', 'missed', 'caught_up')),
    reason_code      text,
    error            text,
    session_id       text, -- it may be gone
    chat_id          text, -- it may be gone
    cancel_requested boolean NOT NULL DEFAULT false,
    scheduled_for    timestamptz NOT NULL,
    triggered_at     timestamptz NOT NULL DEFAULT now(),
    started_at       timestamptz,
    finished_at      timestamptz,
    input_tokens     bigint NOT NULL DEFAULT 0,
    output_tokens    bigint NOT NULL DEFAULT 0,
    attempt          int NOT NULL DEFAULT 1
);
CREATE INDEX scheduled_runs_task ON scheduled_runs (task_id, id DESC);
CREATE UNIQUE INDEX scheduled_runs_ticks ON scheduled_runs (task_id, scheduled_for) WHERE NOT manual;
CREATE INDEX scheduled_runs_open ON scheduled_runs (task_id) WHERE state <> 'ended';

-- +goose Down
SELECT 1;
