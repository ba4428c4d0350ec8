-- +goose Up

-- An account is closed when it was deleted here, or when the identity service has disabled
-- or deleted it. Nothing works in the name of its user.
ALTER TABLE users ADD COLUMN disabled_at timestamptz;
ALTER TABLE users ADD COLUMN closed boolean NOT NULL GENERATED ALWAYS AS (deleted_at IS NOT NULL OR disabled_at IS NOT NULL) STORED;

-- +goose Down
SELECT 1;
