-- +goose Up
-- Whom an identity service signs in. A user of the agent itself has neither issuer nor
-- subject. The index holds deleted users too: who was deleted here does not come back.
ALTER TABLE users
    ADD COLUMN issuer text,
    ADD COLUMN subject text,
    ADD COLUMN identity_version bigint NOT NULL DEFAULT 0,             -- of what the service says of the user
    ADD COLUMN identity_administrator boolean NOT NULL DEFAULT false,  -- what it said last
    ADD CONSTRAINT users_identity CHECK ((issuer IS NULL) = (subject IS NULL));
CREATE UNIQUE INDEX users_identity_subject ON users (issuer, subject) WHERE issuer IS NOT NULL;
