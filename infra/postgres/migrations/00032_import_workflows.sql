-- +goose Up

-- A workflow makes the session of an import; the row is its claim and its result.
-- parts are the sizes, in bytes, of the objects that hold the archive. The attempt
-- fences an executor that is only slow. changed_at is when the last part was stored,
-- the workflow was due or the import ended. What an older version left under way
-- counts as an upload that was abandoned.
ALTER TABLE imports RENAME COLUMN alive_at TO changed_at;
ALTER TABLE imports
    ADD COLUMN state         text NOT NULL DEFAULT 'uploading' CHECK (state IN ('uploading', 'running', 'done', 'failed')),
    ADD COLUMN attempt       int NOT NULL DEFAULT 0,
    ADD COLUMN sandbox_uid   int NOT NULL DEFAULT 0,
    ADD COLUMN parts         bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN options       jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN request_key   text,  -- the Idempotency-Key; null once the import has failed
    ADD COLUMN request_sum   bytea, -- of the archive and the options
    ADD COLUMN imported_from jsonb,
    ADD COLUMN error_kind    text,
    ADD COLUMN error_code    text,
    ADD COLUMN error         text;

CREATE UNIQUE INDEX imports_by_request ON imports (owner_id, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX imports_open ON imports (owner_id) WHERE state IN ('uploading', 'running');
CREATE INDEX imports_ended ON imports (changed_at) WHERE state IN ('done', 'failed');

-- +goose Down
SELECT 1;
