-- +goose Up

-- Reports group usage by solution. The sessions have theirs; of deleted sessions the sums
-- keep it. Rows of before are without: '' is also what sessions without a solution have.
ALTER TABLE deleted_usage
    ADD COLUMN solution_id text NOT NULL DEFAULT '',
    DROP CONSTRAINT deleted_usage_pkey,
    ADD PRIMARY KEY (owner_id, day, model, priced, solution_id);

-- +goose Down
SELECT 1;
