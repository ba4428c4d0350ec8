-- +goose Up

-- Branches on which a what-if has left the entry out, with those that come from
-- them. What was left out so far was left out of every branch that shows the entry.
ALTER TABLE entries ADD COLUMN deprecated_on text[];
UPDATE entries SET deprecated_on = ARRAY[branch_id] WHERE deprecated;
ALTER TABLE entries DROP COLUMN deprecated;

-- What a message that waits to join a chat says for itself: it counts once the
-- message gets a chat of its own.
ALTER TABLE inbox
    ADD COLUMN mode          text,
    ADD COLUMN headless      boolean NOT NULL DEFAULT false,
    ADD COLUMN output_schema jsonb;

-- Workers report here while they take work, so that sessions know when none does.
CREATE TABLE workers (
    id      text PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT now()
);

-- The waiting reason that was published last; null: none.
ALTER TABLE sessions ADD COLUMN waiting_reported text;
CREATE INDEX sessions_waiting_reported ON sessions (id) WHERE waiting_reported IS NOT NULL;

-- +goose Down
SELECT 1;
