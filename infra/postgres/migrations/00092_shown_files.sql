-- +goose Up

-- The files that a call for permission named when the question was asked, with the digests
-- of their contents; null: none. A change of them makes the answer void.
ALTER TABLE questions ADD COLUMN files jsonb;

-- +goose Down
ALTER TABLE questions DROP COLUMN files;
