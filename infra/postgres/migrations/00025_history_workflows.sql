-- +goose Up

-- A workflow carries out each change of a session's history; the row is the claim.
-- The attempt fences an executor that is only slow; the error is what the caller
-- that waits is answered.
ALTER TABLE history_operations
    DROP COLUMN lease_owner,
    DROP COLUMN lease_until,
    ADD COLUMN attempt    int NOT NULL DEFAULT 0,
    ADD COLUMN error_kind text,
    ADD COLUMN error_code text;

-- +goose Down
SELECT 1;
