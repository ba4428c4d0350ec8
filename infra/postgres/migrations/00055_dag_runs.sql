-- +goose Up

-- Runs of DAGs. A subflow is a run of its own, which goes with the run that it is part of.
CREATE TABLE dag_runs (
    id            text PRIMARY KEY,
    solution_id   text NOT NULL REFERENCES prod_solutions (id) ON DELETE CASCADE,
    owner_id      text NOT NULL REFERENCES users (id),
    version       integer NOT NULL,
    trigger       text NOT NULL CHECK (trigger IN ('api', 'subflow')),
    status        text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    inputs        text NOT NULL,
    outputs       text,
    error_code    text,
    error_message text,
    cancel        boolean NOT NULL DEFAULT false,
    retries       integer NOT NULL DEFAULT 0,
    parent_run    text REFERENCES dag_runs (id) ON DELETE CASCADE,
    depth         integer NOT NULL DEFAULT 0,
    wake_at       timestamptz, -- the next time at which something is due
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at    timestamptz,
    finished_at   timestamptz
);
CREATE INDEX dag_runs_solution ON dag_runs (solution_id, id);
CREATE INDEX dag_runs_version ON dag_runs (solution_id, version);
CREATE INDEX dag_runs_parent ON dag_runs (parent_run) WHERE parent_run IS NOT NULL;
CREATE INDEX dag_runs_open ON dag_runs (owner_id) WHERE finished_at IS NULL;
CREATE INDEX dag_runs_finished ON dag_runs (finished_at) WHERE finished_at IS NOT NULL;

-- Nodes of runs, and items of their map nodes. Of a run that was retried, outputs of the
-- earlier try stay, superseded, so that they can be used again.
CREATE TABLE dag_run_nodes (
    id             text PRIMARY KEY,
    run_id         text NOT NULL REFERENCES dag_runs (id) ON DELETE CASCADE,
    solution_id    text NOT NULL,
    node_id        text NOT NULL,
    item           integer NOT NULL DEFAULT -1, -- -1: the node itself
    superseded     boolean NOT NULL DEFAULT false,
    kept           boolean NOT NULL DEFAULT false, -- it is used again whatever has changed
    barred         boolean NOT NULL DEFAULT false, -- it is not used again
    status         text NOT NULL DEFAULT 'pending',
    phase          text NOT NULL DEFAULT '',
    attempt        integer NOT NULL DEFAULT 0,
    session_id     text, -- may be gone
    chat_id        text, -- may be gone
    child_id       text,
    begun          boolean NOT NULL DEFAULT false,
    stop           boolean NOT NULL DEFAULT false, -- what it has begun is yet to be stopped
    rejected_code  text,                           -- its message was rejected
    rejected       text,
    definition     text NOT NULL DEFAULT '',
    inputs_digest  text NOT NULL DEFAULT '',
    request        text,
    output         text,
    error_code     text,
    error_message  text,
    due_at         timestamptz,
    deadline       timestamptz,
    started_at     timestamptz,
    finished_at    timestamptz,
    input_tokens   bigint NOT NULL DEFAULT 0,
    output_tokens  bigint NOT NULL DEFAULT 0,
    reused_from    text,
    reuse_reason   text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX dag_run_nodes_run ON dag_run_nodes (run_id, node_id, item) WHERE NOT superseded;
CREATE INDEX dag_run_nodes_of ON dag_run_nodes (run_id);
CREATE INDEX dag_run_nodes_chat ON dag_run_nodes (chat_id) WHERE status = 'running';
CREATE INDEX dag_run_nodes_finished ON dag_run_nodes (solution_id, node_id, id) WHERE status = 'completed' AND item = -1;

-- +goose Down
SELECT 1;
