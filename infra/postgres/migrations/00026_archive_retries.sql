-- +goose Up

-- A chat whose events could not be archived is tried again later and later, and
-- keeps no other from being archived.
ALTER TABLE chats
    ADD COLUMN archive_tries int NOT NULL DEFAULT 0,
    ADD COLUMN archive_after timestamptz;

-- +goose Down
SELECT 1;
