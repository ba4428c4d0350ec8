-- +goose Up

-- What clients keep with a session, as they like; extra.task_id finds it again.
CREATE TABLE session_extras (
    session_id text PRIMARY KEY REFERENCES sessions (id),
    extra      jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX session_extras_task ON session_extras (left(extra ->> 'task_id', 255), updated_at DESC);

-- Public, read-only links to a session. A revoked one stays, so that it is shown
-- from one that never was.
CREATE TABLE share_links (
    id                  text PRIMARY KEY,
    session_id          text NOT NULL REFERENCES sessions (id),
    hash                bytea NOT NULL UNIQUE CHECK (length(hash) = 32), -- SHA-256; the token itself is never kept
    redact_tool_results boolean NOT NULL DEFAULT false,
    redact_thinking     boolean NOT NULL DEFAULT false,
    views               bigint NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL DEFAULT now(),
    expires_at          timestamptz NOT NULL,
    revoked_at          timestamptz
);
CREATE INDEX share_links_session ON share_links (session_id);

-- The event log forgets after a day; what it held of a session is kept in
-- objects, each a run of events from one position to another, without a gap.
CREATE TABLE event_archives (
    session_id text NOT NULL REFERENCES sessions (id),
    from_seq   bigint NOT NULL, -- exclusive: where the object before ends
    upto_seq   bigint NOT NULL, -- inclusive
    key        text NOT NULL,
    events     int NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, from_seq)
);
ALTER TABLE chats ADD COLUMN archived_round int NOT NULL DEFAULT 0; -- rounds whose events are archived
CREATE INDEX chats_unarchived ON chats (id) WHERE state IN ('ended', 'parked') AND archived_round < round;

-- A session that plays the recorded events of another one.
CREATE TABLE replays (
    session_id        text PRIMARY KEY REFERENCES sessions (id),
    source_session_id text NOT NULL, -- may be gone
    speed             int NOT NULL CHECK (speed IN (1, 2, 5)),
    status            text NOT NULL CHECK (status IN ('playing', 'paused', 'finished', 'autonomous')),
    script            text NOT NULL,              -- object key of what is played
    position          int NOT NULL DEFAULT 0,     -- steps of the script that were played
    total             int NOT NULL,
    snapshot_id       text,                       -- the source's files at the position; null: as they are now
    files_owed        boolean NOT NULL DEFAULT false, -- playback is over and the files have yet to be copied
    attempt           int NOT NULL DEFAULT 0,     -- fences a player that is only slow
    alive_at          timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz NOT NULL DEFAULT now(),
    handed_over_at    timestamptz
);
CREATE INDEX replays_open ON replays (session_id) WHERE status = 'playing' OR files_owed;

-- Imports under way. One whose process died is cleared away by a periodic job: its
-- session was never made.
CREATE TABLE imports (
    session_id text PRIMARY KEY,
    owner_id   text NOT NULL,
    alive_at   timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
SELECT 1;
