-- +goose Up

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

-- Pairs of users who are members of the same workspace.
CREATE OR REPLACE VIEW workspace_peers AS
    SELECT m.user_id, p.user_id AS peer_id
    FROM   prod_workspace_members m JOIN prod_workspace_members p ON p.workspace_id = m.workspace_id;

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
    UNIQUE (workspace_id, number),
    CHECK ((assignee_type IS NULL) = (assignee_id IS NULL))
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
    resolved_at   timestamptz
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

-- Members of a workspace read its sessions.
CREATE INDEX sessions_workspace ON sessions (workspace_id) WHERE workspace_id IS NOT NULL AND deleted_at IS NULL;

-- +goose Down
SELECT 1;
