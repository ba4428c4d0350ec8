-- +goose Up
-- Revoked tokens are removed by their age.
CREATE INDEX personal_tokens_revoked ON identity.personal_tokens (revoked_at) WHERE revoked_at IS NOT NULL;
