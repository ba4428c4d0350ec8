-- +goose Up

-- The preset of a tool server, which says how it is started in place of a command; empty: none.
ALTER TABLE mcp_servers ADD COLUMN preset text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE mcp_servers DROP COLUMN preset;
