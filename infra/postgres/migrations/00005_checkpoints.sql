-- +goose Up

-- Points of a conversation that one can go back to, with their files. Kind
-- tool_batch is internal: the files after a turn that ran tools which can write.
CREATE TABLE checkpoints (
    id          text PRIMARY KEY,
    session_id  text NOT NULL REFERENCES sessions (id),
    branch_id   text NOT NULL REFERENCES branches (id),
    turn_id     text NOT NULL,   -- user_turn: the turn that follows; else the last turn before; empty when there is none
    chat_id     text,
    kind        text NOT NULL CHECK (kind IN ('user_turn', 'tool_batch', 'compaction', 'manual', 'pre_rewind')),
    sequence    bigint NOT NULL, -- tool_batch: the number of its turn; else of the entry that follows
    label       text NOT NULL DEFAULT '',
    state       text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'captured', 'failed')),
    snapshot_id text,
    changed     int NOT NULL DEFAULT 0,
    added       int NOT NULL DEFAULT 0,
    deleted     int NOT NULL DEFAULT 0,
    bytes       bigint NOT NULL DEFAULT 0,
    complete    boolean NOT NULL DEFAULT false,
    failure     text,
    lease_owner text,            -- the process that captures it
    lease_until timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now(),
    captured_at timestamptz,
    CHECK (state <> 'captured' OR snapshot_id IS NOT NULL)
);
CREATE INDEX checkpoints_branch ON checkpoints (branch_id, sequence DESC, id DESC);
CREATE INDEX checkpoints_listed ON checkpoints (session_id, id) WHERE kind <> 'tool_batch';
CREATE INDEX checkpoints_session ON checkpoints (session_id, id);
CREATE INDEX checkpoints_turn ON checkpoints (turn_id);
CREATE INDEX checkpoints_pending ON checkpoints (session_id) WHERE state = 'pending';

-- A change of the branch with its files: claimed in one transaction, finished in
-- another one, and resumed by the process that finds that its process has died.
CREATE TABLE history_operations (
    id            text PRIMARY KEY,
    session_id    text NOT NULL REFERENCES sessions (id),
    kind          text NOT NULL CHECK (kind IN ('rewind', 'switch_branch', 'whatif')),
    state         text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed')),
    caller_id     text NOT NULL,
    checkpoint_id text REFERENCES checkpoints (id),          -- rewind and switch_branch: what was asked for
    left_id       text NOT NULL REFERENCES checkpoints (id), -- what the session stood at
    branch_id     text NOT NULL REFERENCES branches (id),    -- to fork, or to go to
    sequence      bigint,                                    -- where to fork; null: go to its end
    chat_id       text,                                      -- whatif
    deprecate     text[] NOT NULL DEFAULT '{}',              -- whatif
    result        jsonb,
    error         text,
    lease_owner   text,
    lease_until   timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz
);
CREATE UNIQUE INDEX history_operations_running ON history_operations (session_id) WHERE state = 'running';
CREATE INDEX history_operations_session ON history_operations (session_id);

-- The operation that holds the session: no chat begins while one does.
ALTER TABLE sessions ADD COLUMN operation_id text;

-- The last main-loop entry before a branch's own.
ALTER TABLE branches ADD COLUMN forked_from_id text;

-- A task goes on when the turn that started it is no longer on the active branch.
ALTER TABLE background_tasks ADD COLUMN detached boolean NOT NULL DEFAULT false;

-- +goose Down
SELECT 1;
