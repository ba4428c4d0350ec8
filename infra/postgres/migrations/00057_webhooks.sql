-- +goose Up

-- Addresses to which events are sent.
CREATE TABLE webhooks (
    id               text PRIMARY KEY,
    owner_id         text NOT NULL REFERENCES users (id),
    url              text NOT NULL,
    description      text NOT NULL,
    events           text[] NOT NULL,
    only_session     text, -- events of this session alone; it may be gone
    only_task        text, -- events of this scheduled task alone; it may be gone
    enabled          boolean NOT NULL,
    disabled_reason  text, -- why the service disabled it
    sealed           bytea NOT NULL, -- the secret
    previous_sealed  bytea, -- the secret before, until previous_until
    previous_until   timestamptz,
    failures         int NOT NULL DEFAULT 0, -- attempts in a row
    failing_since    timestamptz,
    retry_at         timestamptz, -- no attempt before this time
    last_delivery_at timestamptz, -- that succeeded
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhooks_owner ON webhooks (owner_id, id);

-- One row for each event and webhook, written with the change that the event is of.
CREATE TABLE webhook_deliveries (
    id              text PRIMARY KEY, -- the webhook-id of each attempt
    webhook_id      text NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    session_id      text, -- of the event; the row goes with it
    event           text NOT NULL,
    body            text NOT NULL, -- that is sent
    status          text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
    error           text, -- why it failed without, or besides, its attempts
    attempt_count   int NOT NULL DEFAULT 0,
    tries           int NOT NULL DEFAULT 0, -- attempts since it was created or redelivered
    attempts        jsonb NOT NULL DEFAULT '[]', -- the newest ones
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    claim           bigint NOT NULL DEFAULT 0, -- fencing token of the attempt under way
    claimed_until   timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz
);
CREATE INDEX webhook_deliveries_webhook ON webhook_deliveries (webhook_id, id DESC);
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (webhook_id, next_attempt_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_session ON webhook_deliveries (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (finished_at) WHERE status <> 'pending';

-- Webhooks that are sent the events of a scheduled task, whatever events they list.
ALTER TABLE scheduled_tasks ADD COLUMN notify text[] NOT NULL DEFAULT '{}';

-- +goose Down
SELECT 1;
