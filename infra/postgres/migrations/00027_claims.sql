-- +goose Up

-- Who asked for the commit that began a call or opened a turn: a random value that
-- only the asking process has. It finds its own commit by it when the answer to the
-- commit was lost.
ALTER TABLE tool_calls ADD COLUMN claimed_by text;
ALTER TABLE entries ADD COLUMN opened_by text;

-- A change of a file that is being written. The row orders writers of all
-- processes; no transaction is open while a file is written. An empty etag says
-- that the session has not read the file yet.
ALTER TABLE file_reads ADD COLUMN changing_by text;
ALTER TABLE file_reads ADD COLUMN changing_until timestamptz;

-- +goose Down
SELECT 1;
