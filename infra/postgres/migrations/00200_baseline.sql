-- +goose Up

-- grams returns a hash, which differs by owner, for every three consecutive characters of a
-- text, and for every two of which one is not ASCII, because such words are short.
-- +goose StatementBegin
CREATE FUNCTION grams(owner text, folded text) RETURNS bigint[] IMMUTABLE PARALLEL SAFE STRICT LANGUAGE plpgsql AS $$
DECLARE
    c     text[]   := string_to_array(folded, NULL);
    seed  bigint   := hashtextextended(owner, 0);
    three bigint[] := ARRAY(SELECT hashtextextended(x || y || z, seed) FROM unnest(c, c[2:], c[3:]) AS t (x, y, z) WHERE z IS NOT NULL);
BEGIN
    IF octet_length(folded) = length(folded) THEN
        RETURN three;
    END IF;
    RETURN three || ARRAY(
        SELECT hashtextextended(x || y, seed) FROM unnest(c, c[2:]) AS t (x, y)
        WHERE  y IS NOT NULL AND octet_length(x) > 1 AND octet_length(y) > 1);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION event_log_reached() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN coalesce((SELECT high_water FROM event_log), 0);
END
$$;
-- +goose StatementEnd

CREATE SEQUENCE sandbox_uids MINVALUE 100001 MAXVALUE 2147000000;

-- Users of the service.
CREATE TABLE users (
    id                     text PRIMARY KEY,
    username               text NOT NULL CHECK (length(username) BETWEEN 1 AND 128),
    name                   text NOT NULL DEFAULT '',
    email                  text NOT NULL DEFAULT '',
    avatar_url             text,
    administrator          boolean NOT NULL DEFAULT false,
    created_at             timestamptz NOT NULL DEFAULT now(),
    deleted_at             timestamptz,
    -- Whom an identity service signs in. A user of the agent itself has neither issuer nor
    -- subject. The index holds deleted users too: who was deleted here does not come back.
    issuer                 text,
    subject                text,
    identity_version       bigint NOT NULL DEFAULT 0, -- of what the service says of the user
    identity_administrator boolean NOT NULL DEFAULT false, -- what it said last
    -- An account is closed when it was deleted here, or when the identity service has disabled
    -- or deleted it. Nothing works in the name of its user.
    disabled_at            timestamptz,
    closed                 boolean NOT NULL GENERATED ALWAYS AS (deleted_at IS NOT NULL OR disabled_at IS NOT NULL) STORED,
    CONSTRAINT users_identity CHECK ((issuer IS NULL) = (subject IS NULL))
);
CREATE UNIQUE INDEX users_username ON users (lower(username)) WHERE deleted_at IS NULL;
CREATE INDEX users_email ON users (lower(email)) WHERE deleted_at IS NULL;
CREATE INDEX users_administrators ON users (id) WHERE administrator AND deleted_at IS NULL;
CREATE UNIQUE INDEX users_identity_subject ON users (issuer, subject) WHERE issuer IS NOT NULL;

CREATE TABLE api_keys (
    id           text PRIMARY KEY,
    user_id      text NOT NULL REFERENCES users (id),
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 50),
    hash         bytea NOT NULL CHECK (length(hash) = 32) UNIQUE, -- SHA-256; the key itself is never kept
    masked       text NOT NULL,
    scopes       text[] NOT NULL DEFAULT '{}',
    bootstrap    boolean NOT NULL DEFAULT false, -- the first administrator's, made at start
    expires_at   timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    revoked_at   timestamptz,
    -- The address from which an API key was last used.
    last_used_ip text
);
CREATE INDEX api_keys_user ON api_keys (user_id, id DESC) WHERE revoked_at IS NULL;

-- Answers to mutating requests that carried an Idempotency-Key, kept 24 h.
CREATE TABLE idempotency_keys (
    user_id      text NOT NULL,
    key          text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    request      bytea NOT NULL, -- SHA-256 of method, path and body
    status       int, -- null while the first request runs, or when its answer held a secret
    content_type text,
    response     bytea,
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz, -- null while the first request runs
    holder       text NOT NULL DEFAULT '', -- host and address of the server that runs the first request
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
CREATE INDEX audit_of_actor ON audit (actor_id, id DESC);
CREATE INDEX audit_of_target ON audit (target, id DESC);

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
    active_chat_id      text, -- the chat that holds the session; set and cleared under the row lock
    intent_from_message boolean NOT NULL DEFAULT true, -- the intent may be taken from the first message
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    deleted_at          timestamptz,
    -- What a session says of its own agent: sub-agents, permissions, budget and the
    -- like (domain.SessionSetup).
    setup               jsonb NOT NULL DEFAULT '{}',
    -- The operation that holds the session: no chat begins while one does.
    operation_id        text,
    -- What the chats of a session have used, sub-agents included, for its budget.
    used_tokens         bigint NOT NULL DEFAULT 0,
    used_cost           numeric NOT NULL DEFAULT 0,
    -- The waiting reason that was published last; null: none.
    waiting_reported    text,
    -- A script that a session runs once, as a background task, before its first chat goes
    -- on: the task, and its text.
    init_task_id        text,
    -- That a production solution may name the session, so that the steps of others need not
    -- look. It is never reset.
    assists_solutions   boolean NOT NULL DEFAULT false,
    -- The session's last chat:end, for clients that come after it. json, and not jsonb: a result
    -- may have what jsonb refuses (a NUL), and numbers that it rounds.
    last_end            json,
    -- What a session was made for, which says how long it is kept.
    class               text NOT NULL DEFAULT 'chat' CHECK (class IN ('chat', 'schedule', 'dag', 'issue')),
    -- Whether a run of an issue got the environment of its owner in this session.
    holds_secrets       boolean NOT NULL DEFAULT false
);
CREATE INDEX sessions_of_owner ON sessions (owner_id, is_pinned DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX sessions_running ON sessions (id) WHERE status IN ('running', 'waiting_for_input') AND deleted_at IS NULL;
-- What waits for a user is looked up among the sessions that can hold a question.
CREATE INDEX sessions_waiting ON sessions (owner_id) WHERE status IN ('running', 'waiting_for_input') AND deleted_at IS NULL;
-- For counting a user's sessions: entries of one value are packed, a tenth of the pages of the list's own index. The
-- condition on the owner keeps it from queries that want an order: only one that repeats it can use it.
CREATE INDEX sessions_counted ON sessions (owner_id) WHERE deleted_at IS NULL AND owner_id <> '';
-- A prefix of template ids is a range of bytes.
CREATE INDEX sessions_of_template ON sessions (owner_id, template_id COLLATE "C", is_pinned, id)
    WHERE deleted_at IS NULL AND template_id IS NOT NULL;
CREATE INDEX sessions_deleted ON sessions (owner_id, id) WHERE deleted_at IS NOT NULL;
-- Deleted sessions whose content has yet to be removed, of all owners.
CREATE INDEX sessions_to_remove ON sessions (id) WHERE deleted_at IS NOT NULL;
-- Members of a workspace read its sessions.
CREATE INDEX sessions_workspace ON sessions (workspace_id) WHERE workspace_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX sessions_age ON sessions (class, created_at) WHERE deleted_at IS NULL AND NOT is_pinned AND NOT shared AND NOT is_persistent;
CREATE INDEX sessions_without_worker ON sessions (id) WHERE waiting_reported = 'worker_missing';

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
    created_at       timestamptz NOT NULL DEFAULT now(),
    -- The last main-loop entry before a branch's own.
    forked_from_id   text
);
CREATE INDEX branches_session ON branches (session_id);
CREATE INDEX branches_parent ON branches (parent_branch_id) WHERE parent_branch_id IS NOT NULL;

-- A chat is one durable run of the agent loop, from chat:start to chat:end; a
-- chat that continues after an answer keeps its row.
CREATE TABLE chats (
    id                 text PRIMARY KEY,
    session_id         text NOT NULL REFERENCES sessions (id),
    branch_id          text NOT NULL REFERENCES branches (id),
    trigger            text NOT NULL,
    mode               text NOT NULL,
    headless           boolean NOT NULL DEFAULT false,
    output_schema      jsonb,
    model              text,
    state              text NOT NULL CHECK (state IN ('queued', 'running', 'parked', 'ended')),
    workflow_id        text,
    run_id             text,
    steps              int NOT NULL DEFAULT 0,
    input_tokens       bigint NOT NULL DEFAULT 0,
    output_tokens      bigint NOT NULL DEFAULT 0,
    round              int NOT NULL DEFAULT 0, -- chat:starts so far, resumptions after a crash not counted
    waiting_reason     text NOT NULL DEFAULT 'queued',
    waiting_until      timestamptz, -- the next try of a rate-limited model call
    stop_requested     boolean NOT NULL DEFAULT false,
    wake_pending       boolean NOT NULL DEFAULT false, -- its parked run has yet to hear that it goes on or is closed
    schema_tries       int NOT NULL DEFAULT 0, -- answers so far that did not fit output_schema
    started_at         timestamptz, -- of this round
    finish_reason      text,
    error_code         text,
    error_message      text,
    ended_at           timestamptz,
    created_at         timestamptz NOT NULL DEFAULT now(),
    -- The memories that a chat was given, once for all its model calls.
    recalled           jsonb,
    archived_round     int NOT NULL DEFAULT 0, -- rounds whose events are archived
    -- The faults of a loop's model calls since one last succeeded: of the main loop
    -- with its chat, of a sub-agent with its loop. They outlive workers, runs and
    -- deploys, which Temporal's count of attempts does not.
    model_faults       int NOT NULL DEFAULT 0 CHECK (model_faults >= 0),
    model_faults_since timestamptz, -- the first of them
    model_retry_at     timestamptz, -- no model call before this
    -- How often the reconciler has let the chat go on in a new run since it last made
    -- progress, the progress at that time, and the last run that was counted as lost.
    -- force_failed is why an administrator wants the chat to fail instead.
    restarts           int NOT NULL DEFAULT 0,
    restart_steps      int NOT NULL DEFAULT 0,
    restarted_run      text,
    force_failed       text,
    -- A chat whose events could not be archived is tried again later and later, and
    -- keeps no other from being archived.
    archive_tries      int NOT NULL DEFAULT 0,
    archive_after      timestamptz,
    -- The id of a workflow run that waits for the chat, and is signalled when it has ended.
    waiter             text,
    waiter_notified    boolean NOT NULL DEFAULT false,
    cache_read_tokens  bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    cost_nano          bigint NOT NULL DEFAULT 0,
    uncosted_tokens    bigint NOT NULL DEFAULT 0,
    -- Answers among the model faults that the model server may charge.
    model_faults_paid  int NOT NULL DEFAULT 0 CHECK (model_faults_paid >= 0)
);
CREATE INDEX chats_session ON chats (session_id, id);
CREATE INDEX chats_open ON chats (id) WHERE state IN ('running', 'parked');
CREATE INDEX chats_unarchived ON chats (id) WHERE state IN ('ended', 'parked') AND archived_round < round;
-- Chats whose run has yet to learn of a change: looked for every second.
CREATE INDEX chats_wake ON chats (session_id) WHERE wake_pending;
CREATE INDEX chats_branch ON chats (branch_id);
CREATE INDEX chats_waiters ON chats (id) WHERE waiter IS NOT NULL AND state = 'ended' AND NOT waiter_notified;

-- Entries are the turns of the conversation, a tree by parent_id.
CREATE TABLE entries (
    id                       text PRIMARY KEY, -- the turn id
    session_id               text NOT NULL REFERENCES sessions (id),
    branch_id                text NOT NULL REFERENCES branches (id),
    sequence                 bigint NOT NULL,
    parent_id                text,
    chat_id                  text NOT NULL REFERENCES chats (id),
    loop_id                  text NOT NULL DEFAULT 'root',
    parent_fork_tool_call_id text,
    kind                     text NOT NULL DEFAULT 'message' CHECK (kind IN ('message', 'compaction')),
    role                     text NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
    status                   text NOT NULL CHECK (status IN ('streaming', 'completed', 'paused', 'failed', 'interrupted')),
    step                     int NOT NULL DEFAULT 0, -- the model call of its loop that made it, from 1
    attempt                  int NOT NULL DEFAULT 0, -- fences a stalled worker: writes are conditional on it; 0: free to be taken
    max_attempt              int NOT NULL DEFAULT 0, -- the highest attempt given out
    blocks                   jsonb NOT NULL DEFAULT '[]',
    parts                    jsonb, -- what the client sent, images as object references (user turns)
    model                    text NOT NULL DEFAULT '',
    input_tokens             bigint NOT NULL DEFAULT 0,
    output_tokens            bigint NOT NULL DEFAULT 0,
    duration_ms              bigint NOT NULL DEFAULT 0,
    context_window           bigint NOT NULL DEFAULT 0,
    memory_refs              jsonb,
    failure_reason           text,
    flushed_seq              bigint NOT NULL DEFAULT 0, -- the log position up to which blocks hold the stream
    compaction               jsonb,
    started_at               timestamptz NOT NULL DEFAULT now(),
    ended_at                 timestamptz,
    -- the field in which the model server sent the turn's thinking; '': none
    reasoning_field          text NOT NULL DEFAULT '' CHECK (reasoning_field IN ('', 'reasoning_content', 'reasoning')),
    opened_by                text,
    -- Branches on which a what-if has left the entry out, with those that come from
    -- them.
    deprecated_on            text[],
    -- What model calls have used besides tokens in and out. Costs are in billionths of the
    -- currency of the model list, so that sums are exact.
    cache_read_tokens        bigint NOT NULL DEFAULT 0,
    cache_write_tokens       bigint NOT NULL DEFAULT 0,
    cost_nano                bigint NOT NULL DEFAULT 0,
    server_members           text NOT NULL DEFAULT '',
    -- The size of a turn's prompt; null: it is input_tokens. Input_tokens is the sum of all model
    -- calls of the turn, and what a server reports that cuts prompts is far too little.
    prompt_tokens            bigint,
    -- starts_after is a position that the event log had reached before the turn:start of the
    -- entry was published: a search for it begins there. NULL: unknown.
    starts_after             bigint DEFAULT event_log_reached(),
    UNIQUE (branch_id, sequence)
);
CREATE INDEX entries_session ON entries (session_id, id DESC);
CREATE INDEX entries_session_open ON entries (session_id) WHERE status IN ('streaming', 'paused');
CREATE INDEX entries_step ON entries (chat_id, loop_id, step);
-- A loop reads its own turns, whatever other loops of the branch have said, and
-- begins at its newest summary.
CREATE INDEX entries_loop ON entries (branch_id, loop_id, sequence);
CREATE INDEX entries_compacted ON entries (branch_id, loop_id, sequence) WHERE kind = 'compaction' AND status = 'completed';

-- The ledger of tool calls: reserved (queued) → running → finished by
-- compare-and-set, so that no effect happens twice.
CREATE TABLE tool_calls (
    id             text PRIMARY KEY,
    session_id     text NOT NULL,
    chat_id        text NOT NULL,
    entry_id       text NOT NULL REFERENCES entries (id),
    position       int NOT NULL,
    tool_name      text NOT NULL,
    display_name   text NOT NULL,
    arguments      text NOT NULL,
    status         text NOT NULL CHECK (status IN ('pending', 'done', 'error', 'cancelled', 'awaiting_answer')),
    phase          text NOT NULL CHECK (phase IN ('queued', 'running', 'finished', 'unknown_outcome')),
    attempt        int NOT NULL DEFAULT 0,
    lease_until    timestamptz, -- the worker that runs it is alive until then, at least
    result         text NOT NULL DEFAULT '',
    started_at     timestamptz,
    duration_ms    bigint NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT now(),
    server_call_id text NOT NULL DEFAULT '', -- the id that the model server gave the call; '': none
    -- Who asked for the commit that began a call or opened a turn: a random value that
    -- only the asking process has. It finds its own commit by it when the answer to the
    -- commit was lost.
    claimed_by     text,
    -- What the command of a call connected to, or was kept from; null: nothing.
    connections    jsonb,
    -- The images of a call's result, which are attachments of the session; null: none.
    images         jsonb,
    server_members text NOT NULL DEFAULT '',
    UNIQUE (entry_id, position)
);
CREATE INDEX tool_calls_open ON tool_calls (chat_id) WHERE status IN ('pending', 'awaiting_answer');
-- The statistics of skills come from the ledger of tool calls.
CREATE INDEX tool_calls_skill ON tool_calls (session_id, created_at DESC) WHERE tool_name = 'Skill';
-- What images of results a session has, for the bound of their bytes.
CREATE INDEX tool_calls_images ON tool_calls (session_id) WHERE images IS NOT NULL;

CREATE TABLE questions (
    id             text PRIMARY KEY,
    session_id     text NOT NULL REFERENCES sessions (id),
    chat_id        text NOT NULL REFERENCES chats (id),
    entry_id       text NOT NULL REFERENCES entries (id),
    tool_call_id   text NOT NULL REFERENCES tool_calls (id) UNIQUE,
    loop_id        text NOT NULL,
    questions      jsonb NOT NULL,
    state          text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'answered', 'cancelled')),
    answer         jsonb,
    resolved_by    text,
    asked_at       timestamptz NOT NULL DEFAULT now(),
    resolved_at    timestamptz,
    -- Which sub-agent asks; null: the main loop.
    source_loop    jsonb,
    -- A question that asks for permission holds back the tool call that it guards;
    -- allows are the rules that an answer for the whole session adds to its setup.
    guards         text REFERENCES tool_calls (id) ON DELETE CASCADE,
    allows         jsonb,
    -- What becomes of a question that no user answers. The times are absolute, so that they
    -- hold over restarts.
    expires_at     timestamptz,
    default_policy text CHECK (default_policy IN ('choose', 'first_option', 'answer')),
    escalate_at    timestamptz, -- NULL: never, or done
    -- A node of a DAG may name the answer that counts when no user answers in time, and the
    -- user who may answer once its question is escalated.
    escalated_to   text,
    -- The files that a call for permission named when the question was asked, with the digests
    -- of their contents; null: none. A change of them makes the answer void.
    files          jsonb
);
CREATE INDEX questions_open ON questions (session_id) WHERE state = 'open';
CREATE INDEX questions_guards ON questions (guards) WHERE guards IS NOT NULL;
CREATE INDEX questions_session ON questions (session_id);
CREATE INDEX questions_chat ON questions (chat_id);
CREATE INDEX questions_entry ON questions (entry_id);
CREATE INDEX questions_expiring ON questions (expires_at) WHERE state = 'open' AND expires_at IS NOT NULL;
CREATE INDEX questions_escalating ON questions (escalate_at) WHERE state = 'open' AND escalate_at IS NOT NULL;
CREATE INDEX questions_escalated ON questions (escalated_to) WHERE state = 'open' AND escalated_to IS NOT NULL;

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
    -- What a message that waits to join a chat says for itself: it counts once the
    -- message gets a chat of its own.
    mode              text,
    headless          boolean NOT NULL DEFAULT false,
    output_schema     jsonb,
    UNIQUE (session_id, client_message_id)
);
CREATE INDEX inbox_queued ON inbox (session_id, front DESC, id) WHERE state = 'queued';
CREATE INDEX inbox_chat ON inbox (chat_id);
-- What has to be found to be pruned; all but empty once it is.
CREATE INDEX inbox_content ON inbox (id) WHERE state <> 'queued' AND parts <> '[]';

-- Events of a state change are written with it and published after it; a row
-- left behind by a crash is published by a periodic job, if the log lacks it.
CREATE TABLE outbox (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id        text NOT NULL,
    session_id      text NOT NULL,
    chat_id         text NOT NULL DEFAULT '',
    name            text NOT NULL,
    data            json NOT NULL, -- json, not jsonb: kept as written, U+0000 escapes included
    created_at      timestamptz NOT NULL DEFAULT now(),
    -- The process that wrote a row, so that another one's next change of the session
    -- can see that it must not overtake it.
    writer          text NOT NULL DEFAULT '',
    -- seq is the event's place in the event log, NULL until it is published. A published
    -- row stays for some seconds, so that an event log that lost its last second in a
    -- power cut gets it again. after_seq is a place that the log had reached before the
    -- event was first published: a search for the event begins there.
    -- maybe_published says that an earlier try may be in the log without a message id.
    seq             bigint,
    published_at    timestamptz,
    after_seq       bigint NOT NULL DEFAULT 0,
    maybe_published boolean NOT NULL DEFAULT false,
    -- lost_seq is where the event log had an event before it lost its end. The event is
    -- published again with it, so that a client that has seen it does not get it twice.
    lost_seq        bigint
);
CREATE INDEX outbox_session ON outbox (session_id, id);
-- Events that are not published yet: looked for with each step, each second and at each
-- scrape. While the event log is unavailable, they are many.
CREATE INDEX outbox_left ON outbox (session_id, id) WHERE seq IS NULL;

-- One row: how far the event log's numbers have come, so that they grow even
-- when the log was lost.
CREATE TABLE event_log (
    id         boolean PRIMARY KEY DEFAULT true CHECK (id),
    high_water bigint NOT NULL
);

-- Work that outlives the chat that started it, and the agent's own task list.
CREATE TABLE background_tasks (
    id               text PRIMARY KEY,
    session_id       text NOT NULL REFERENCES sessions (id),
    chat_id          text,
    tool_call_id     text,
    kind             text NOT NULL CHECK (kind IN ('shell', 'agent')),
    title            text NOT NULL,
    command          text,
    status           text NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'stopped', 'lost')),
    pid              int,
    exit_code        int,
    reason           text,
    output_path      text NOT NULL DEFAULT '',
    output_bytes     bigint NOT NULL DEFAULT 0,
    owner_run_id     text NOT NULL DEFAULT '',
    attempt          int NOT NULL DEFAULT 0,
    stop_requested   boolean NOT NULL DEFAULT false,
    lease_expires_at timestamptz,
    started_at       timestamptz NOT NULL DEFAULT now(),
    last_output_at   timestamptz,
    finished_at      timestamptz,
    -- A task goes on when the turn that started it is no longer on the active branch.
    detached         boolean NOT NULL DEFAULT false,
    script           text
);
CREATE INDEX background_tasks_session ON background_tasks (session_id, id DESC);
CREATE INDEX background_tasks_running ON background_tasks (id) WHERE status = 'running';
-- Whether a session runs commands in the background, and when the last one ended.
CREATE INDEX background_tasks_times ON background_tasks (session_id, finished_at);

CREATE TABLE session_tasks (
    id          text PRIMARY KEY,
    session_id  text NOT NULL REFERENCES sessions (id),
    subject     text NOT NULL CHECK (length(subject) BETWEEN 1 AND 500),
    description text NOT NULL DEFAULT '',
    status      text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'in_progress', 'completed', 'cancelled')),
    position    int NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    -- Who does an entry of the task list, and the entries that come before it.
    owner       text CHECK (length(owner) BETWEEN 1 AND 200),
    blocked_by  text[] NOT NULL DEFAULT '{}',
    UNIQUE (session_id, position)
);

-- What the agent has read in a session: Edit refuses a file that was not read,
-- or that changed since.
CREATE TABLE file_reads (
    session_id     text NOT NULL REFERENCES sessions (id),
    path           text NOT NULL,
    etag           text NOT NULL,
    read_at        timestamptz NOT NULL DEFAULT now(),
    -- A change of a file that is being written. The row orders writers of all
    -- processes; no transaction is open while a file is written. An empty etag says
    -- that the session has not read the file yet.
    changing_by    text,
    changing_until timestamptz,
    PRIMARY KEY (session_id, path)
);

-- Sub-agents. A loop has the id of the Agent call that owns it, and is reserved
-- with it: reserved → queued (it wants a slot) → running ⇄ waiting (only an
-- answer can move it) → ended. Its turns are the entries with its loop_id.
CREATE TABLE loops (
    id                 text PRIMARY KEY REFERENCES tool_calls (id),
    session_id         text NOT NULL REFERENCES sessions (id),
    chat_id            text NOT NULL REFERENCES chats (id),
    branch_id          text NOT NULL REFERENCES branches (id),
    parent_loop_id     text NOT NULL, -- 'root', or another loop
    task_id            text, -- of the background task that it belongs to; null: it ends with its chat
    background         boolean NOT NULL DEFAULT false, -- it is that task, not a sub-agent of it
    depth              int NOT NULL CHECK (depth > 0),
    agent_type         text NOT NULL,
    description        text NOT NULL,
    instructions       text NOT NULL DEFAULT '', -- of its type, for the system prompt
    prompt             text NOT NULL,
    tools              text[], -- names of its only tools; null: all
    model              text,
    max_steps          int NOT NULL,
    time_limit_s       bigint NOT NULL,
    state              text NOT NULL DEFAULT 'reserved' CHECK (state IN ('reserved', 'queued', 'running', 'waiting', 'ended')),
    result             text NOT NULL DEFAULT '',
    created_at         timestamptz NOT NULL DEFAULT now(),
    started_at         timestamptz,
    ended_at           timestamptz,
    model_faults       int NOT NULL DEFAULT 0 CHECK (model_faults >= 0),
    model_faults_since timestamptz,
    model_retry_at     timestamptz,
    model_faults_paid  int NOT NULL DEFAULT 0 CHECK (model_faults_paid >= 0)
);
CREATE INDEX loops_open ON loops (chat_id, id) WHERE state <> 'ended';
CREATE INDEX loops_session ON loops (session_id);
CREATE INDEX loops_task ON loops (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX loops_chat ON loops (chat_id);
CREATE INDEX loops_branch ON loops (branch_id);

-- A compaction from its request to its result. Its entry in the conversation has
-- the same id, so that there is never more than one.
CREATE TABLE compactions (
    id         text PRIMARY KEY,
    session_id text NOT NULL REFERENCES sessions (id),
    branch_id  text NOT NULL REFERENCES branches (id),
    loop_id    text NOT NULL,
    chat_id    text REFERENCES chats (id), -- the chat that needs it; null: a client asked for it
    step       int NOT NULL DEFAULT 0, -- the model call of the loop that it comes before
    trigger    text NOT NULL CHECK (trigger IN ('auto', 'manual', 'overflow')),
    state      text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'completed', 'skipped', 'failed')),
    work       jsonb NOT NULL DEFAULT '{}', -- how far it has come: domain.CompactionWork
    result     jsonb, -- domain.CompactionResult
    below      boolean, -- it brought the context below the threshold; null: it does not count
    exhausted  boolean NOT NULL DEFAULT false, -- the second in a row that did not
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz,
    UNIQUE (chat_id, loop_id, step, trigger)
);
CREATE INDEX compactions_running ON compactions (id) WHERE state = 'running';
CREATE INDEX compactions_session ON compactions (session_id, loop_id, id DESC);
CREATE INDEX compactions_branch ON compactions (branch_id);
CREATE INDEX compactions_work ON compactions (id) WHERE state <> 'running' AND work <> '{}';

-- How many tokens of a model one estimated token stands for, as its server has
-- reported them.
CREATE TABLE token_ratios (
    model      text PRIMARY KEY,
    ratio      double precision NOT NULL CHECK (ratio > (0)::double precision),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Points of a conversation that one can go back to, with their files. Kind
-- tool_batch is internal: the files after a turn that ran tools which can write.
CREATE TABLE checkpoints (
    id          text PRIMARY KEY,
    session_id  text NOT NULL REFERENCES sessions (id),
    branch_id   text NOT NULL REFERENCES branches (id),
    turn_id     text NOT NULL, -- user_turn: the turn that follows; else the last turn before; empty when there is none
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
    lease_owner text, -- the process that captures it
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
    checkpoint_id text REFERENCES checkpoints (id), -- rewind and switch_branch: what was asked for
    left_id       text NOT NULL REFERENCES checkpoints (id), -- what the session stood at
    branch_id     text NOT NULL REFERENCES branches (id), -- to fork, or to go to
    sequence      bigint, -- where to fork; null: go to its end
    chat_id       text, -- whatif
    deprecate     text[] NOT NULL DEFAULT '{}', -- whatif
    result        jsonb,
    error         text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz,
    -- A workflow carries out each change of a session's history; the row is the claim.
    -- The attempt fences an executor that is only slow; the error is what the caller
    -- that waits is answered.
    attempt       int NOT NULL DEFAULT 0,
    error_kind    text,
    error_code    text
);
CREATE UNIQUE INDEX history_operations_running ON history_operations (session_id) WHERE state = 'running';
CREATE INDEX history_operations_session ON history_operations (session_id);
CREATE INDEX history_operations_checkpoint ON history_operations (checkpoint_id) WHERE checkpoint_id IS NOT NULL;
CREATE INDEX history_operations_left ON history_operations (left_id);
CREATE INDEX history_operations_branch ON history_operations (branch_id);

-- What clients keep with a session, as they like; extra.task_id finds it again.
CREATE TABLE session_extras (
    session_id text PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    extra      jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX session_extras_task ON session_extras ("left"((extra ->> 'task_id'), 255), updated_at DESC);

-- Public, read-only links to a session. A revoked one stays, so that it is shown
-- from one that never was.
CREATE TABLE share_links (
    id                  text PRIMARY KEY,
    session_id          text NOT NULL REFERENCES sessions (id),
    hash                bytea NOT NULL CHECK (length(hash) = 32) UNIQUE, -- SHA-256; the token itself is never kept
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

-- A session that plays the recorded events of another one.
CREATE TABLE replays (
    session_id        text PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    source_session_id text NOT NULL, -- may be gone
    speed             int NOT NULL CHECK (speed IN (1, 2, 5)),
    status            text NOT NULL CHECK (status IN ('playing', 'paused', 'finished', 'autonomous')),
    script            text NOT NULL, -- object key of what is played
    position          int NOT NULL DEFAULT 0, -- steps of the script that were played
    total             int NOT NULL,
    snapshot_id       text, -- the source's files at the position; null: as they are now
    files_owed        boolean NOT NULL DEFAULT false, -- playback is over and the files have yet to be copied
    attempt           int NOT NULL DEFAULT 0, -- fences a player that is only slow
    alive_at          timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz NOT NULL DEFAULT now(),
    handed_over_at    timestamptz
);
CREATE INDEX replays_open ON replays (session_id) WHERE status = 'playing' OR files_owed;

-- Imports under way. One whose process died is cleared away by a periodic job: its
-- session was never made.
CREATE TABLE imports (
    session_id    text PRIMARY KEY,
    owner_id      text NOT NULL,
    changed_at    timestamptz NOT NULL DEFAULT now(),
    state         text NOT NULL DEFAULT 'uploading' CHECK (state IN ('uploading', 'running', 'done', 'failed')),
    attempt       int NOT NULL DEFAULT 0,
    sandbox_uid   int NOT NULL DEFAULT 0,
    parts         bigint[] NOT NULL DEFAULT '{}'::bigint[],
    options       jsonb NOT NULL DEFAULT '{}',
    request_key   text, -- the Idempotency-Key; null once the import has failed
    request_sum   bytea, -- of the archive and the options
    imported_from jsonb,
    error_kind    text,
    error_code    text,
    error         text
);
CREATE UNIQUE INDEX imports_by_request ON imports (owner_id, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX imports_open ON imports (owner_id) WHERE state IN ('uploading', 'running');
CREATE INDEX imports_ended ON imports (changed_at) WHERE state IN ('done', 'failed');

-- Skills that a user has installed from the registry, for all of their sessions.
-- The packages are directories named by their digest.
CREATE TABLE installed_skills (
    owner_id     text NOT NULL REFERENCES users (id),
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    org          text NOT NULL,
    version      text NOT NULL,
    digest       text NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner_id, name)
);

-- Packages in the workspaces of sessions, as they were when they came or were
-- last read again.
CREATE TABLE session_skills (
    session_id   text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    source       text NOT NULL CHECK (source IN ('registry', 'uploaded')),
    org          text NOT NULL DEFAULT '',
    version      text NOT NULL DEFAULT '',
    digest       text NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, name)
);

-- Which version of a skill the model of a session has read.
CREATE TABLE skill_loads (
    session_id text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    digest     text NOT NULL,
    loaded_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, name)
);

-- The version of its primary skill that a session keeps to.
CREATE TABLE skill_snapshots (
    session_id  text PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    skill_id    text NOT NULL,
    org         text NOT NULL DEFAULT '',
    name        text NOT NULL,
    version     text NOT NULL DEFAULT '',
    digest      text NOT NULL,
    path        text NOT NULL,
    files_count int NOT NULL,
    taken_at    timestamptz NOT NULL DEFAULT now()
);

-- Tool servers that sessions may use (Model Context Protocol).
CREATE TABLE mcp_servers (
    id          text PRIMARY KEY,
    scope       text NOT NULL CHECK (scope IN ('service', 'solution', 'session')),
    solution_id text,
    session_id  text REFERENCES sessions (id) ON DELETE CASCADE,
    owner_id    text NOT NULL REFERENCES users (id),
    name        text NOT NULL CHECK (name ~ '^[a-z0-9_-]{1,64}$'),
    transport   text NOT NULL CHECK (transport IN ('stdio', 'http')),
    command     text NOT NULL DEFAULT '',
    args        text[] NOT NULL DEFAULT '{}',
    url         text NOT NULL DEFAULT '',
    sealed      bytea NOT NULL, -- environment and headers, encrypted
    tools       text[] NOT NULL DEFAULT '{}', -- the only ones offered; empty: all
    timeout_s   int NOT NULL,
    enabled     boolean NOT NULL,
    trust_hints boolean NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    -- The preset of a tool server, which says how it is started in place of a command; empty: none.
    preset      text NOT NULL DEFAULT '',
    CHECK ((scope = 'solution') = (solution_id IS NOT NULL) AND (scope = 'session') = (session_id IS NOT NULL))
);
CREATE UNIQUE INDEX mcp_servers_service ON mcp_servers (name) WHERE scope = 'service';
CREATE UNIQUE INDEX mcp_servers_solution ON mcp_servers (solution_id, owner_id, name) WHERE scope = 'solution';
CREATE UNIQUE INDEX mcp_servers_session ON mcp_servers (session_id, name) WHERE session_id IS NOT NULL;
CREATE INDEX mcp_servers_owner ON mcp_servers (owner_id, id);

-- The last known state of sessions' connections with them.
CREATE TABLE mcp_connections (
    session_id  text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    name        text NOT NULL,
    fingerprint text NOT NULL,
    status      text NOT NULL CHECK (status IN ('connecting', 'connected', 'failed')),
    error       text NOT NULL DEFAULT '',
    tools       jsonb NOT NULL DEFAULT '[]',
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, name)
);

-- What agents and users want to know in later sessions. A memory belongs to a
-- user; owner is a word of the client's.
CREATE TABLE memories (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id        text NOT NULL REFERENCES users (id),
    type           text NOT NULL CHECK (type IN ('feedback', 'experience')),
    content        text NOT NULL CHECK (length(content) BETWEEN 1 AND 500),
    skill_name     text,
    record_type    text CHECK (record_type IN ('memory', 'skill_comment')),
    scope          text,
    owner          text,
    topic          text,
    external_id    text,
    superseded_by  bigint REFERENCES memories (id) ON DELETE SET NULL,
    write_reason   text,
    source_session text NOT NULL DEFAULT '',
    call_id        text UNIQUE, -- the tool call that wrote it
    hit_count      bigint NOT NULL DEFAULT 0,
    last_hit_at    timestamptz,
    disabled       boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz,
    -- Words as written and by their English stems: other languages match by the former.
    words          tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, ((COALESCE(topic, '') || ' ') || content)) || to_tsvector('english'::regconfig, ((COALESCE(topic, '') || ' ') || content))) STORED
);
CREATE INDEX memories_newest ON memories (user_id, id DESC);
CREATE INDEX memories_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memories_words ON memories USING gin (words);

-- Which roles of a solution a user may take; no row: all of them.
CREATE TABLE allowed_biz_roles (
    user_id      text NOT NULL REFERENCES users (id),
    solution_id  text NOT NULL,
    biz_role_ids text[] NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, solution_id)
);

-- Environment of a user's tools, in named buckets; sealed is the whole of one,
-- encrypted with the service's key.
CREATE TABLE env_buckets (
    user_id    text NOT NULL REFERENCES users (id),
    bucket     text NOT NULL CHECK (length(bucket) BETWEEN 1 AND 128),
    sealed     bytea NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, bucket)
);

CREATE TABLE user_preferences (
    user_id    text NOT NULL REFERENCES users (id),
    key        text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    value      text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, key)
);

-- What a front end keeps for a user, in a form of its own.
CREATE TABLE user_profiles (
    user_id    text PRIMARY KEY REFERENCES users (id),
    profile    jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- The version of the compute environment that a user's work was last started again
-- with; without a row it was never looked at.
CREATE TABLE compute_envs (
    user_id    text PRIMARY KEY REFERENCES users (id),
    version    text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Directories of workspaces that their owners have published. The copy that is
-- served outlives the session.
CREATE TABLE apps (
    id           text PRIMARY KEY,
    owner_id     text NOT NULL REFERENCES users (id),
    session_id   text NOT NULL,
    working_dir  text NOT NULL,
    name         text NOT NULL,
    status       text NOT NULL CHECK (status IN ('building', 'live', 'failed', 'stopped')),
    copy_id      text NOT NULL DEFAULT '',
    published_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    CHECK (status <> 'live' OR copy_id <> '')
);
CREATE UNIQUE INDEX apps_place ON apps (session_id, working_dir) WHERE status <> 'stopped';
CREATE INDEX apps_owner ON apps (owner_id, id DESC);

-- The texts that a user can search, folded to lower case: the intents of sessions
-- (id: the session's) and the text of their turns (id: the entry's). Triggers keep
-- them; a row goes with its session.
CREATE TABLE search_texts (
    session_id text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id         text NOT NULL,
    owner_id   text NOT NULL,
    folded     text NOT NULL,
    indexed    boolean NOT NULL DEFAULT false, -- search_grams holds it; else a search reads the text
    PRIMARY KEY (session_id, id)
);
CREATE INDEX search_owner ON search_texts (owner_id, indexed);
CREATE INDEX search_grams ON search_texts USING gin (grams(owner_id, folded)) WITH (gin_pending_list_limit='512') WHERE indexed;
ALTER INDEX search_grams ALTER COLUMN 1 SET STATISTICS 0;

-- What the object store keeps of the checkpoints of a session, in bytes.
CREATE TABLE checkpoint_usage (
    session_id text PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    owner_id   text NOT NULL REFERENCES users (id),
    bytes      bigint NOT NULL
);
CREATE INDEX checkpoint_usage_owner ON checkpoint_usage (owner_id) INCLUDE (bytes);

-- Domains that a user allows or denies the commands of all their sessions.
CREATE TABLE network_rules (
    id         text PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users (id),
    domain     text NOT NULL CHECK (length(domain) BETWEEN 1 AND 300),
    decision   text NOT NULL CHECK (decision IN ('allow', 'deny')),
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (user_id, domain)
);

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
    synced_until           timestamptz, -- the last tick that the engine's schedule has
    created_at             timestamptz NOT NULL DEFAULT now(),
    updated_at             timestamptz NOT NULL DEFAULT now(),
    deleted_at             timestamptz, -- until the engine's schedule is gone too
    -- Webhooks that are sent the events of a scheduled task, whatever events they list.
    notify                 text[] NOT NULL DEFAULT '{}',
    question_policy        jsonb,
    -- Outcome contract: files that must exist and commands that must pass after a run, and
    -- what their checks found.
    files                  text[] NOT NULL DEFAULT '{}',
    commands               text[] NOT NULL DEFAULT '{}',
    -- The production workspace of a scheduled task, whose members may read the task, its runs
    -- and its sessions. The workspace may be deleted meanwhile.
    workspace_id           text,
    -- Until when a process has the update of the task's schedule in Temporal; NULL: none.
    sync_until             timestamptz
);
CREATE INDEX scheduled_tasks_owner ON scheduled_tasks (owner_id, id) WHERE deleted_at IS NULL;
CREATE INDEX scheduled_tasks_stale ON scheduled_tasks (id) WHERE version <> synced_version;
CREATE INDEX scheduled_tasks_due ON scheduled_tasks (next_fire_at) WHERE enabled AND deleted_at IS NULL;
CREATE INDEX scheduled_tasks_workspace_id ON scheduled_tasks (workspace_id, id) WHERE workspace_id IS NOT NULL AND deleted_at IS NULL;

-- One row for each tick of a task, and for each run that was asked for.
CREATE TABLE scheduled_runs (
    id                 text PRIMARY KEY,
    task_id            text NOT NULL REFERENCES scheduled_tasks (id) ON DELETE CASCADE,
    manual             boolean NOT NULL,
    state              text NOT NULL CHECK (state IN ('waiting', 'running', 'ended')),
    status             text NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
    outcome            text NOT NULL CHECK (outcome IN ('fired', 'skipped', 'coalesced', 'blocked', 'missed', 'caught_up')),
    reason_code        text,
    error              text,
    session_id         text, -- it may be gone
    chat_id            text, -- it may be gone
    cancel_requested   boolean NOT NULL DEFAULT false,
    scheduled_for      timestamptz NOT NULL,
    triggered_at       timestamptz NOT NULL DEFAULT now(),
    started_at         timestamptz,
    finished_at        timestamptz,
    input_tokens       bigint NOT NULL DEFAULT 0,
    output_tokens      bigint NOT NULL DEFAULT 0,
    attempt            int NOT NULL DEFAULT 1,
    cache_read_tokens  bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    cost_nano          bigint NOT NULL DEFAULT 0,
    uncosted_tokens    bigint NOT NULL DEFAULT 0,
    checks             jsonb NOT NULL DEFAULT '[]',
    -- Why a scheduled run failed. The reason of its outcome (reason_code), such as run_now, stays beside it.
    error_code         text,
    -- When the tick of a run was due with its jitter, from which its drift counts; null, in older
    -- rows: scheduled_for.
    due_at             timestamptz
);
CREATE INDEX scheduled_runs_task ON scheduled_runs (task_id, id DESC);
CREATE UNIQUE INDEX scheduled_runs_ticks ON scheduled_runs (task_id, scheduled_for) WHERE NOT manual;
CREATE INDEX scheduled_runs_open ON scheduled_runs (task_id) WHERE state <> 'ended';
CREATE INDEX scheduled_runs_stopping ON scheduled_runs (finished_at) WHERE cancel_requested AND finished_at IS NOT NULL;

-- Production solutions. The sessions may have been deleted since: no foreign keys.
CREATE TABLE prod_solutions (
    id                     text PRIMARY KEY,
    owner_id               text NOT NULL REFERENCES users (id),
    name                   text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    description            text NOT NULL DEFAULT '' CHECK (length(description) <= 20000),
    status                 text NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'published', 'archived')),
    main_session           text,
    flow_session           text,
    architecture_session   text,
    document_bytes         bigint NOT NULL DEFAULT 0, -- of all versions of its documents
    created_at             timestamptz NOT NULL DEFAULT now(),
    updated_at             timestamptz NOT NULL DEFAULT now(),
    -- In which of its sessions an agent assists with the documents of a production solution.
    ai_assist              boolean NOT NULL DEFAULT false,
    flow_ai_assist         boolean NOT NULL DEFAULT false,
    architecture_ai_assist boolean NOT NULL DEFAULT false
);
CREATE INDEX prod_solutions_owner ON prod_solutions (owner_id, id);

-- Which versions of a document are in effect. latest is never given twice, also after
-- its version was deleted.
CREATE TABLE prod_documents (
    solution_id text NOT NULL REFERENCES prod_solutions (id) ON DELETE CASCADE,
    kind        text NOT NULL CHECK (kind IN ('dag', 'architecture')),
    latest      int NOT NULL,
    published   int,
    -- The newest version of a document can be deleted; its number is not given again.
    deleted     int NOT NULL DEFAULT 0, -- the highest number of a version that was deleted while it was the newest
    PRIMARY KEY (solution_id, kind)
);

-- Versions never change. The content is JSON in its canonical form.
CREATE TABLE prod_document_versions (
    solution_id text NOT NULL,
    kind        text NOT NULL,
    version     int NOT NULL CHECK (version > 0),
    content     text NOT NULL,
    digest      text NOT NULL,
    message     text NOT NULL DEFAULT '',
    node_count  int NOT NULL,
    edge_count  int NOT NULL,
    created_by  text NOT NULL REFERENCES users (id),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (solution_id, kind, version),
    FOREIGN KEY (solution_id, kind) REFERENCES prod_documents (solution_id, kind) ON DELETE CASCADE
);

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
    visibility       text NOT NULL,
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

-- Workers report here while they take work, so that sessions know when none does.
CREATE TABLE workers (
    id          text PRIMARY KEY,
    seen_at     timestamptz NOT NULL DEFAULT now(),
    -- What each worker has announced. A worker of an older version announces nothing of it.
    runtime_id  text NOT NULL DEFAULT 'builtin' REFERENCES agent_runtimes (id),
    slots       int NOT NULL DEFAULT 0,
    used        int NOT NULL DEFAULT 0,
    draining_at timestamptz -- it ends what it has begun since
);
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
    visibility           text NOT NULL,
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

-- Production workspaces: boards of issues with their members.
CREATE TABLE prod_workspaces (
    id           text PRIMARY KEY,
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
    slug         text NOT NULL UNIQUE,
    description  text NOT NULL DEFAULT '' CHECK (length(description) <= 1000),
    issue_prefix text NOT NULL CHECK (length(issue_prefix) BETWEEN 1 AND 10),
    settings     jsonb NOT NULL,
    last_number  int NOT NULL DEFAULT 0, -- of its issues
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE prod_workspace_members (
    id           text PRIMARY KEY,
    workspace_id text NOT NULL REFERENCES prod_workspaces (id) ON DELETE CASCADE,
    user_id      text NOT NULL REFERENCES users (id),
    role         text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (workspace_id, user_id)
);
CREATE INDEX prod_workspace_members_user ON prod_workspace_members (user_id, workspace_id DESC);

CREATE TABLE prod_squads (
    id           text PRIMARY KEY,
    workspace_id text NOT NULL REFERENCES prod_workspaces (id) ON DELETE CASCADE,
    name         text NOT NULL,
    leader_id    text NOT NULL, -- an agent instance, which may be gone
    instructions text NOT NULL,
    members      jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX prod_squads_name ON prod_squads (workspace_id, lower(name));

-- The session in which a member talks to an assistant of the workspace. It may have been
-- deleted since: no foreign key.
CREATE TABLE prod_assistants (
    workspace_id      text NOT NULL REFERENCES prod_workspaces (id) ON DELETE CASCADE,
    user_id           text NOT NULL REFERENCES users (id),
    biz_role_id       text NOT NULL,
    assistant_session text NOT NULL,
    PRIMARY KEY (workspace_id, user_id, biz_role_id)
);

CREATE TABLE issues (
    id               text PRIMARY KEY,
    workspace_id     text NOT NULL REFERENCES prod_workspaces (id) ON DELETE CASCADE,
    number           int NOT NULL,
    title            text NOT NULL,
    description      text NOT NULL DEFAULT '',
    status           text NOT NULL CHECK (status IN ('backlog', 'todo', 'in_progress', 'in_review', 'done', 'blocked', 'cancelled')),
    priority         text NOT NULL CHECK (priority IN ('urgent', 'high', 'medium', 'low', 'none')),
    assignee_type    text CHECK (assignee_type IN ('member', 'agent', 'squad')),
    assignee_id      text, -- it may be gone
    creator_id       text NOT NULL REFERENCES users (id),
    parent_issue_id  text REFERENCES issues (id) ON DELETE SET NULL,
    project          text,
    position         double precision NOT NULL,
    stage            text,
    start_date       timestamptz,
    due_date         timestamptz,
    labels           text[] NOT NULL DEFAULT '{}',
    metadata         jsonb NOT NULL DEFAULT '{}',
    revision         int NOT NULL DEFAULT 1,
    changed_by       text NOT NULL, -- a user or an agent instance
    last_activity_at timestamptz NOT NULL DEFAULT now(),
    first_started_at timestamptz,
    closed_at        timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    -- Who assigned the issue: owners of agents may assign their own without sharing them.
    assigned_by      text,
    CHECK ((assignee_type IS NULL) = (assignee_id IS NULL)),
    UNIQUE (workspace_id, number)
);
CREATE INDEX issues_position ON issues (workspace_id, position);
CREATE INDEX issues_parent ON issues (parent_issue_id) WHERE parent_issue_id IS NOT NULL;
CREATE INDEX issues_assignee ON issues (assignee_id) WHERE assignee_id IS NOT NULL;

CREATE TABLE issue_comments (
    id            text PRIMARY KEY,
    issue_id      text NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    author_type   text NOT NULL CHECK (author_type IN ('member', 'agent', 'system')),
    author_id     text NOT NULL,
    content       text NOT NULL,
    parent_id     text REFERENCES issue_comments (id) ON DELETE SET NULL,
    source_run_id text,
    question_id   text UNIQUE, -- the question of a run that it puts
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    resolved_at   timestamptz,
    -- The order in which comments of an issue were committed: the lock of the issue is held when a
    -- position is assigned. Their ids are made of the clocks of several machines.
    position      bigint GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX issue_comments_issue ON issue_comments (issue_id, id DESC);
CREATE INDEX issue_comments_parent ON issue_comments (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE issue_activity (
    id         text PRIMARY KEY,
    issue_id   text NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    actor_type text NOT NULL CHECK (actor_type IN ('member', 'agent', 'system')),
    actor_id   text NOT NULL,
    action     text NOT NULL,
    details    jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX issue_activity_issue ON issue_activity (issue_id, id DESC);

-- Runs of agents that work on issues. One is open for an issue at a time.
CREATE TABLE issue_runs (
    id                 text PRIMARY KEY,
    issue_id           text NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    agent_id           text NOT NULL, -- the instance, which may be gone
    squad_id           text, -- of which the agent is the leader
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
    session_id         text, -- it may be gone
    continues          boolean NOT NULL DEFAULT false, -- the session knows the issue already
    chat_id            text, -- the last one; it may be gone
    round              int NOT NULL DEFAULT 1, -- of its messages
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
    finished_at        timestamptz,
    cache_read_tokens  bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    cost_nano          bigint NOT NULL DEFAULT 0,
    -- What a run has read of the comments: up to this position.
    seen_position      bigint NOT NULL DEFAULT 0,
    upto_position      bigint
);
CREATE INDEX issue_runs_issue ON issue_runs (issue_id, id DESC);
CREATE UNIQUE INDEX issue_runs_active ON issue_runs (issue_id) WHERE status IN ('queued', 'dispatched', 'running') AND NOT cancel_requested;
CREATE INDEX issue_runs_agent ON issue_runs (agent_id, id) WHERE status IN ('queued', 'dispatched', 'running');
CREATE INDEX issue_runs_open ON issue_runs (id) WHERE status IN ('queued', 'dispatched', 'running');
-- Runs that were ended before their chats: the stops of the chats are repeated until they
-- were taken.
CREATE INDEX issue_runs_stopping ON issue_runs (finished_at) WHERE cancel_requested AND finished_at IS NOT NULL;

-- Runs of DAGs. A subflow is a run of its own, which goes with the run that it is part of.
CREATE TABLE dag_runs (
    id            text PRIMARY KEY,
    solution_id   text NOT NULL REFERENCES prod_solutions (id) ON DELETE CASCADE,
    owner_id      text NOT NULL REFERENCES users (id),
    version       int NOT NULL,
    trigger       text NOT NULL CHECK (trigger IN ('api', 'subflow')),
    status        text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    inputs        text NOT NULL,
    outputs       text,
    error_code    text,
    error_message text,
    cancel        boolean NOT NULL DEFAULT false,
    retries       int NOT NULL DEFAULT 0,
    parent_run    text REFERENCES dag_runs (id) ON DELETE CASCADE,
    depth         int NOT NULL DEFAULT 0,
    wake_at       timestamptz, -- the next time at which something is due
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at    timestamptz,
    finished_at   timestamptz,
    -- Repeated attempts of the same step of a run, which ends as failed after some of them.
    advances      smallint NOT NULL DEFAULT 0
);
CREATE INDEX dag_runs_solution ON dag_runs (solution_id, id);
CREATE INDEX dag_runs_version ON dag_runs (solution_id, version);
CREATE INDEX dag_runs_parent ON dag_runs (parent_run) WHERE parent_run IS NOT NULL;
CREATE INDEX dag_runs_open ON dag_runs (owner_id) WHERE finished_at IS NULL;
CREATE INDEX dag_runs_finished ON dag_runs (finished_at) WHERE finished_at IS NOT NULL;
-- Runs of DAGs that are over, of which each solution keeps the newest: their removal counts
-- to the oldest that is kept, and does not rank all of them.
CREATE INDEX dag_runs_over ON dag_runs (solution_id, id) WHERE finished_at IS NOT NULL AND parent_run IS NULL;
-- What the reconciler looks for among the runs of DAGs: those that are not over, and nodes
-- whose work is yet to be stopped.
CREATE INDEX dag_runs_unfinished ON dag_runs (id) WHERE finished_at IS NULL;

-- Nodes of runs, and items of their map nodes. Of a run that was retried, outputs of the
-- earlier try stay, superseded, so that they can be used again.
CREATE TABLE dag_run_nodes (
    id                 text PRIMARY KEY,
    run_id             text NOT NULL REFERENCES dag_runs (id) ON DELETE CASCADE,
    solution_id        text NOT NULL,
    node_id            text NOT NULL,
    item               int NOT NULL DEFAULT -1, -- -1: the node itself
    superseded         boolean NOT NULL DEFAULT false,
    kept               boolean NOT NULL DEFAULT false, -- the result is reused, even if its inputs changed
    barred             boolean NOT NULL DEFAULT false, -- it is not used again
    status             text NOT NULL DEFAULT 'pending',
    phase              text NOT NULL DEFAULT '',
    attempt            int NOT NULL DEFAULT 0,
    session_id         text, -- may be gone
    chat_id            text, -- may be gone
    child_id           text,
    begun              boolean NOT NULL DEFAULT false,
    stop               boolean NOT NULL DEFAULT false, -- what it has begun is yet to be stopped
    rejected_code      text, -- its message was rejected
    rejected           text,
    definition         text NOT NULL DEFAULT '',
    inputs_digest      text NOT NULL DEFAULT '',
    request            text,
    output             text,
    error_code         text,
    error_message      text,
    due_at             timestamptz,
    deadline           timestamptz,
    started_at         timestamptz,
    finished_at        timestamptz,
    input_tokens       bigint NOT NULL DEFAULT 0,
    output_tokens      bigint NOT NULL DEFAULT 0,
    reused_from        text,
    reuse_reason       text NOT NULL DEFAULT '',
    -- What runs have used besides input and output tokens, as in chats.
    cache_read_tokens  bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    cost_nano          bigint NOT NULL DEFAULT 0,
    uncosted_tokens    bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX dag_run_nodes_run ON dag_run_nodes (run_id, node_id, item) WHERE NOT superseded;
CREATE INDEX dag_run_nodes_of ON dag_run_nodes (run_id);
CREATE INDEX dag_run_nodes_chat ON dag_run_nodes (chat_id) WHERE status = 'running';
CREATE INDEX dag_run_nodes_finished ON dag_run_nodes (solution_id, node_id, id) WHERE status = 'completed' AND item = '-1'::integer;
CREATE INDEX dag_run_nodes_stopping ON dag_run_nodes (run_id) WHERE stop;

-- Notes of people on turns, tool calls and files.
CREATE TABLE annotations (
    id          text PRIMARY KEY,
    session_id  text REFERENCES sessions (id),
    payload_id  text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('rating', 'label', 'comment', 'correction', 'bookmark')),
    target      jsonb,
    value       jsonb,
    text        text,
    labels      text[] NOT NULL DEFAULT '{}',
    author_id   text NOT NULL REFERENCES users (id),
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz,
    -- Annotations may be on a node of a run of a DAG, and go with it.
    run_node    text REFERENCES dag_run_nodes (id) ON DELETE CASCADE,
    CONSTRAINT annotations_of CHECK ((session_id IS NULL) <> (run_node IS NULL))
);
CREATE INDEX annotations_payload ON annotations (payload_id, id);
CREATE INDEX annotations_session ON annotations (session_id);
CREATE INDEX annotations_run_node ON annotations (run_node) WHERE run_node IS NOT NULL;

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
-- Attempts under way: counted each time deliveries are claimed, twice a second on each worker.
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (webhook_id) WHERE status = 'pending' AND claimed_until IS NOT NULL;

-- What the model calls of a session have used, by day (UTC) and model. Calls of
-- models without a price have a separate row.
CREATE TABLE session_usage (
    session_id         text NOT NULL REFERENCES sessions (id),
    owner_id           text NOT NULL REFERENCES users (id),
    day                date NOT NULL,
    model              text NOT NULL,
    priced             boolean NOT NULL,
    calls              bigint NOT NULL,
    input_tokens       bigint NOT NULL,
    output_tokens      bigint NOT NULL,
    cache_read_tokens  bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cost_nano          bigint NOT NULL,
    first_at           timestamptz NOT NULL DEFAULT now(),
    last_at            timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, day, model, priced)
) WITH (fillfactor=80);
CREATE INDEX session_usage_owner ON session_usage (owner_id, day);
CREATE INDEX session_usage_day ON session_usage (day);

-- The same of sessions that are deleted, together.
CREATE TABLE deleted_usage (
    owner_id           text NOT NULL REFERENCES users (id),
    day                date NOT NULL,
    model              text NOT NULL,
    priced             boolean NOT NULL,
    calls              bigint NOT NULL,
    input_tokens       bigint NOT NULL,
    output_tokens      bigint NOT NULL,
    cache_read_tokens  bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cost_nano          bigint NOT NULL,
    -- Reports group usage by solution. The sessions have theirs; of deleted sessions the sums
    -- keep it. '': none.
    solution_id        text NOT NULL DEFAULT '',
    PRIMARY KEY (owner_id, day, model, priced, solution_id)
);
CREATE INDEX deleted_usage_day ON deleted_usage (day);

-- How often the reconciler has restarted the workflow of a piece of work that is no chat,
-- the last run of it that was counted as lost, and when. Work that was never lost has no
-- row.
CREATE TABLE work_restarts (
    workflow_id  text PRIMARY KEY,
    run_id       text NOT NULL,
    restarts     int NOT NULL DEFAULT 1,
    restarted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX work_restarts_age ON work_restarts (restarted_at);

-- What the object store keeps of published apps: a row is made before the objects of a
-- copy, and goes after them. bytes is what the copy needs at most until it is stored.
CREATE TABLE app_copies (
    name     text PRIMARY KEY, -- under which the object store has it
    app_id   text NOT NULL, -- may be gone, when its first copy was refused
    owner_id text NOT NULL REFERENCES users (id),
    bytes    bigint NOT NULL,
    made_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX app_copies_owner ON app_copies (owner_id) INCLUDE (bytes);
CREATE INDEX app_copies_age ON app_copies (made_at);

-- Users who were asked to join a production workspace. The invitee is an id or a user name
-- in lower case, as the inviter wrote it: the inviter must not learn whether such a user exists.
CREATE TABLE prod_workspace_invitations (
    id           text PRIMARY KEY,
    workspace_id text NOT NULL REFERENCES prod_workspaces (id) ON DELETE CASCADE,
    invitee      text NOT NULL,
    role         text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    invited_by   text NOT NULL REFERENCES users (id),
    declined_at  timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (workspace_id, invitee)
);
CREATE INDEX prod_workspace_invitations_invitee ON prod_workspace_invitations (invitee);

-- The workspaces in which members may assign issues to an agent instance. With secrets, its runs
-- there get the environment of its owner.
CREATE TABLE agent_instance_shares (
    instance_id  text NOT NULL REFERENCES agent_instances (id) ON DELETE CASCADE,
    workspace_id text NOT NULL REFERENCES prod_workspaces (id) ON DELETE CASCADE,
    secrets      boolean NOT NULL DEFAULT false,
    PRIMARY KEY (instance_id, workspace_id)
);
CREATE INDEX agent_instance_shares_workspace ON agent_instance_shares (workspace_id);

-- Init scripts of other users' agents that a user has read and lets run with their environment:
-- the digest of the script, for a production agent or an agent instance.
CREATE TABLE init_script_consents (
    user_id  text NOT NULL REFERENCES users (id),
    agent_id text NOT NULL,
    digest   text NOT NULL,
    PRIMARY KEY (user_id, agent_id)
);

-- Messages of runs that were cancelled before they were sent: a worker that still sends one is
-- refused. The session may not be there yet.
CREATE TABLE cancelled_sends (
    session_id        text NOT NULL,
    client_message_id text NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, client_message_id)
);
CREATE INDEX cancelled_sends_age ON cancelled_sends (created_at);

-- Which database this is. A restore changes it; the namespace of Temporal has a copy, by
-- which a process notices at its start that the open runs there belong to another database.
CREATE TABLE database_generation (
    id         boolean PRIMARY KEY DEFAULT true CHECK (id), -- one row
    generation uuid NOT NULL DEFAULT gen_random_uuid()
);

-- Definitions of the tools of tool servers. Sessions are offered the accepted ones; a
-- proposed one waits until the owner of the server accepts it.
CREATE TABLE mcp_tools (
    server_id   text NOT NULL REFERENCES mcp_servers (id) ON DELETE CASCADE,
    tool        text NOT NULL,
    accepted    json, -- NULL: the tool is new
    proposed    json, -- NULL: the server lists the accepted one
    proposed_at timestamptz,
    CHECK (accepted IS NOT NULL OR proposed IS NOT NULL),
    PRIMARY KEY (server_id, tool)
);

-- What the servers of models do not take, as their answers showed. What was learnt of images
-- and tool servers is of one session. Rows are valid for a day, so that a server that was
-- upgraded is asked again.
CREATE TABLE model_limits (
    model      text NOT NULL,
    session_id text REFERENCES sessions (id) ON DELETE CASCADE,
    kind       text NOT NULL CHECK (kind IN ('field', 'image', 'tool_server', 'prompt')),
    subject    text NOT NULL, -- a part of requests, the name of an image, a tool server; '': prompts
    digest     text NOT NULL DEFAULT '', -- of the tools of the tool server
    reported   bigint, -- tokens of a prompt that the server cut
    estimated  bigint,
    learned_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((kind IN ('image', 'tool_server')) = (session_id IS NOT NULL))
);
CREATE UNIQUE INDEX model_limits_one ON model_limits (session_id, model, kind, subject, digest) NULLS NOT DISTINCT;

-- Pairs of users who are members of the same workspace.
CREATE VIEW workspace_peers AS
    SELECT m.user_id, p.user_id AS peer_id
    FROM   prod_workspace_members m JOIN prod_workspace_members p ON p.workspace_id = m.workspace_id;

-- fold_case folds beyond ASCII whatever the database's own locale is.
-- +goose StatementBegin
CREATE FUNCTION fold_case(given text) RETURNS text IMMUTABLE PARALLEL SAFE STRICT LANGUAGE sql AS
    $$ SELECT lower(given COLLATE "und-x-icu") $$;
-- +goose StatementEnd

-- search_text stores the text that searches find. It is indexed later, many rows at once, so
-- that a chat does not wait for it.
-- +goose StatementBegin
CREATE FUNCTION search_text(session text, entry text, owner text, said text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO search_texts (session_id, id, owner_id, folded) VALUES (session, entry, owner, fold_case(said))
    ON CONFLICT (session_id, id) DO UPDATE SET folded = excluded.folded, indexed = false
    WHERE search_texts.folded <> excluded.folded $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION search_intent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM search_text(NEW.id, NEW.id, NEW.owner_id, NEW.intent);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- said returns the text blocks of a turn, separated so that no word spans two of them.
-- +goose StatementBegin
CREATE FUNCTION said(blocks jsonb) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
    $$ SELECT string_agg(b ->> 'content', chr(31)) FROM jsonb_array_elements(blocks) b WHERE b ->> 'type' = 'text' AND b ->> 'content' <> '' $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION search_turn() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    words text := said(NEW.blocks);
BEGIN
    IF words IS NOT NULL THEN
        PERFORM search_text(NEW.session_id, NEW.id, (SELECT owner_id FROM sessions WHERE id = NEW.session_id), words);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER search_new_intent AFTER INSERT ON sessions FOR EACH ROW WHEN (NEW.intent <> '') EXECUTE FUNCTION search_intent();
CREATE TRIGGER search_changed_intent AFTER UPDATE OF intent ON sessions
    FOR EACH ROW WHEN (NEW.intent <> OLD.intent) EXECUTE FUNCTION search_intent();
CREATE TRIGGER search_turn AFTER INSERT OR UPDATE OF status, blocks ON entries
    FOR EACH ROW WHEN ((NEW.kind = 'message') AND (NEW.role IN ('user', 'assistant')) AND (NEW.status <> 'streaming')) EXECUTE FUNCTION search_turn();

-- The runtime of the agents that this service runs itself.
INSERT INTO agent_runtimes (id, provider, name, mode) VALUES ('builtin', 'builtin', 'builtin', 'builtin');

-- The role of Temporal in Compose looks up keys.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'everloop_temporal') THEN
        GRANT SELECT ON users, api_keys TO everloop_temporal;
        GRANT UPDATE (last_used_at, last_used_ip) ON api_keys TO everloop_temporal;
    END IF;
END
$$;
-- +goose StatementEnd

INSERT INTO database_generation DEFAULT VALUES;
