-- +goose Up
-- A trigger starts work when a request reaches its address, or when a run ends.
CREATE TABLE triggers (
    id               text PRIMARY KEY,
    owner_id         text NOT NULL REFERENCES users (id),
    name             text NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('webhook', 'run_ended')),
    auth             text CHECK (auth IN ('bearer', 'standard', 'github', 'gitlab', 'slack')),
    sealed           bytea, -- the secret
    ends             text[] NOT NULL DEFAULT '{}', -- of runs that start it
    source_kind      text CHECK (source_kind IN ('task', 'dag', 'issue')),
    source_id        text, -- whose runs start it; it may be deleted
    filter           text NOT NULL,
    target           jsonb NOT NULL,
    enabled          boolean NOT NULL,
    rate_limit       int NOT NULL,
    rate_next        timestamptz NOT NULL DEFAULT '-infinity', -- state of the rate limit
    refused_next     timestamptz NOT NULL DEFAULT '-infinity', -- the same of the records of refused deliveries
    last_delivery_at timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CHECK ((kind = 'webhook') = (auth IS NOT NULL AND sealed IS NOT NULL)),
    CHECK ((kind = 'run_ended') = (source_kind IS NOT NULL AND source_id IS NOT NULL))
);
CREATE INDEX triggers_owner ON triggers (owner_id, id);
CREATE INDEX triggers_source ON triggers (source_kind, source_id) WHERE source_id IS NOT NULL;

-- One row for each event that arrived. Without an outcome it is carried out by its workflow.
CREATE TABLE trigger_deliveries (
    id           text PRIMARY KEY,
    work_id      text NOT NULL, -- the id of what its present attempt starts
    trigger_id   text NOT NULL REFERENCES triggers (id) ON DELETE CASCADE,
    key          text NOT NULL, -- the sender's id of the event, or a digest
    counted      boolean NOT NULL, -- a delivery with the same key repeats it
    outcome      text CHECK (outcome IN
        ('fired', 'duplicate', 'filtered', 'rate_limited', 'paused', 'invalid_signature', 'failed')),
    reason_code  text,
    error        text,
    event        text NOT NULL,
    headers      jsonb NOT NULL, -- without credentials
    body         bytea, -- null: it was removed, or not stored
    body_bytes   int NOT NULL,
    attempt      int NOT NULL DEFAULT 1,
    ancestors    text[] NOT NULL DEFAULT '{}', -- the triggers before it in its chain of runs
    duplicate_of text,
    session_id   text,
    chat_id      text,
    run          text, -- typed id of what it started
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at       timestamptz NOT NULL DEFAULT clock_timestamp(), -- when its workflow was to start
    finished_at  timestamptz
);
CREATE UNIQUE INDEX trigger_deliveries_key ON trigger_deliveries (trigger_id, key) WHERE counted;
CREATE INDEX trigger_deliveries_trigger ON trigger_deliveries (trigger_id, id DESC);
CREATE INDEX trigger_deliveries_open ON trigger_deliveries (id) WHERE outcome IS NULL;
CREATE INDEX trigger_deliveries_run ON trigger_deliveries (run) WHERE run IS NOT NULL;
CREATE INDEX trigger_deliveries_ended ON trigger_deliveries (finished_at) WHERE outcome IS NOT NULL;
