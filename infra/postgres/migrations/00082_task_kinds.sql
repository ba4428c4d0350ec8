-- +goose Up

-- Schedules and publications are no background tasks: no row had such a kind.
ALTER TABLE background_tasks
    DROP CONSTRAINT background_tasks_kind_check,
    ADD CONSTRAINT background_tasks_kind_check CHECK (kind IN ('shell', 'agent'));

-- +goose Down
SELECT 1;
