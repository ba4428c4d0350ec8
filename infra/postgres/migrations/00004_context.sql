-- +goose Up

-- A compaction from its request to its result. Its entry in the conversation has
-- the same id, so that there is never more than one.
CREATE TABLE compactions (
    id         text PRIMARY KEY,
    session_id text NOT NULL REFERENCES sessions (id),
    branch_id  text NOT NULL REFERENCES branches (id),
    loop_id    text NOT NULL,
    chat_id    text REFERENCES chats (id), -- the chat that needs it; null: a client asked for it
    step       int NOT NULL DEFAULT 0,     -- the model call of the loop that it comes before
    trigger    text NOT NULL CHECK (trigger IN ('auto', 'manual', 'overflow')),
    state      text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'completed', 'skipped', 'failed')),
    work       jsonb NOT NULL DEFAULT '{}', -- how far it has come: domain.CompactionWork
    result     jsonb,                       -- domain.CompactionResult
    below      boolean,                     -- it brought the context below the threshold; null: it does not count
    exhausted  boolean NOT NULL DEFAULT false, -- the second in a row that did not
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz,
    UNIQUE (chat_id, loop_id, step, trigger)
);
CREATE INDEX compactions_running ON compactions (id) WHERE state = 'running';
CREATE INDEX compactions_session ON compactions (session_id, loop_id, id DESC);

-- A loop reads its own turns, whatever other loops of the branch have said, and
-- begins at its newest summary.
CREATE INDEX entries_loop ON entries (branch_id, loop_id, sequence);
CREATE INDEX entries_compacted ON entries (branch_id, loop_id, sequence) WHERE kind = 'compaction' AND status = 'completed';

-- The memories that a chat was given, once for all its model calls.
ALTER TABLE chats ADD COLUMN recalled jsonb;

-- How many tokens of a model one estimated token stands for, as its server has
-- reported them.
CREATE TABLE token_ratios (
    model      text PRIMARY KEY,
    ratio      double precision NOT NULL CHECK (ratio > 0),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
SELECT 1;
