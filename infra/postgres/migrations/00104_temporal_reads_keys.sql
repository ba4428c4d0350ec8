-- +goose Up

-- Temporal verifies the API keys of administrators. Where it connects as a role of its own
-- (build/compose/roles.sql), it reads keys and their users, and nothing else.

-- +goose StatementBegin
DO $$
BEGIN
	IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'everloop_temporal') THEN
		GRANT SELECT ON users, api_keys TO everloop_temporal;
		GRANT UPDATE (last_used_at, last_used_ip) ON api_keys TO everloop_temporal;
	END IF;
END
$$;
-- +goose StatementEnd
