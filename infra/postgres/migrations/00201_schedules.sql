-- +goose Up
-- A scheduled task is a Temporal Schedule. The row is what the API lists, and what a change of the API wants.
DROP INDEX scheduled_tasks_stale;
DROP INDEX scheduled_tasks_due;
ALTER TABLE scheduled_tasks
    DROP COLUMN version, DROP COLUMN synced_version, DROP COLUMN synced_until, DROP COLUMN next_fire_at,
    -- The last change that the Schedule does not have yet; NULL: it has all.
    ADD COLUMN pending text DEFAULT 'created',
    -- When the Schedule was due as Temporal last described it.
    ADD COLUMN due_seen text NOT NULL DEFAULT '',
    -- The Schedule was edited in Temporal to times that no cron expression names.
    ADD COLUMN custom_due boolean NOT NULL DEFAULT false,
    -- Every tick up to then has a record.
    ADD COLUMN recorded_until timestamptz NOT NULL DEFAULT now(),
    -- When the Schedule needs the times of the next clock changes.
    ADD COLUMN renew_at timestamptz;
ALTER TABLE scheduled_tasks RENAME COLUMN sync_until TO push_until;
CREATE INDEX scheduled_tasks_pending ON scheduled_tasks (id) WHERE pending IS NOT NULL;
CREATE INDEX scheduled_tasks_renew ON scheduled_tasks (renew_at) WHERE renew_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX scheduled_tasks_due ON scheduled_tasks (next_run_at) WHERE enabled AND deleted_at IS NULL;

-- The id of a run is the task and the nominal time.
DROP INDEX scheduled_runs_ticks;
ALTER TABLE scheduled_runs
    -- The Temporal run that began it; NULL: none did.
    ADD COLUMN execution text,
    -- The API has asked for it, and the Schedule was not triggered yet.
    ADD COLUMN asked boolean NOT NULL DEFAULT false;
CREATE UNIQUE INDEX scheduled_runs_ticks ON scheduled_runs (task_id, scheduled_for);
CREATE INDEX scheduled_runs_asked ON scheduled_runs (id) WHERE asked;
