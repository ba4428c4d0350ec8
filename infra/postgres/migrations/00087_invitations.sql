-- +goose Up

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

-- Instances were visible in all workspaces of their owner. They stay so where no other user can
-- have added the owner.
INSERT INTO agent_instance_shares (instance_id, workspace_id)
SELECT a.id, m.workspace_id
FROM   agent_instances a JOIN prod_workspace_members m ON m.user_id = a.owner_id AND m.role = 'owner'
WHERE  a.visibility = 'workspace'
AND    NOT EXISTS (SELECT 1 FROM prod_workspace_members o
                   WHERE o.workspace_id = m.workspace_id AND o.user_id <> m.user_id AND o.role IN ('owner', 'admin'));

-- Who assigned the issue: owners of agents may assign their own without sharing them.
ALTER TABLE issues ADD COLUMN assigned_by text;
UPDATE issues SET assigned_by = creator_id WHERE assignee_id IS NOT NULL;

-- Whether a run of an issue got the environment of its owner in this session.
ALTER TABLE sessions ADD COLUMN holds_secrets boolean NOT NULL DEFAULT false;
UPDATE sessions SET holds_secrets = true WHERE class = 'issue';

-- +goose Down
SELECT 1;
