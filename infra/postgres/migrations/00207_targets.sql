-- +goose Up
-- What a scheduled run has started, when that is not a chat: the run of a DAG or an issue.
ALTER TABLE scheduled_runs ADD COLUMN started jsonb;

-- What started it, such as task/<id>, and the workflow that is signalled at its end; NULL: none.
ALTER TABLE dag_runs ADD COLUMN started_by text, ADD COLUMN waiter text;
ALTER TABLE issues ADD COLUMN started_by text, ADD COLUMN waiter text;
ALTER TABLE dag_runs DROP CONSTRAINT dag_runs_trigger_check,
    ADD CONSTRAINT dag_runs_trigger_check CHECK (trigger IN ('api', 'subflow', 'schedule', 'trigger'));
