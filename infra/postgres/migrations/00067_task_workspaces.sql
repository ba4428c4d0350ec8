-- +goose Up

-- The production workspace of a scheduled task, whose members may read the task, its runs
-- and its sessions. The workspace may be deleted meanwhile.
ALTER TABLE scheduled_tasks ADD COLUMN workspace_id text;

CREATE INDEX scheduled_tasks_workspace_id ON scheduled_tasks (workspace_id, id)
    WHERE workspace_id IS NOT NULL AND deleted_at IS NULL;

-- +goose Down
SELECT 1;
