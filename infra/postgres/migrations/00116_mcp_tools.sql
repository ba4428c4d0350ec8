-- +goose Up

-- Definitions of the tools of tool servers. Sessions are offered the accepted ones; a
-- proposed one waits until the owner of the server accepts it.
CREATE TABLE mcp_tools (
    server_id   text NOT NULL REFERENCES mcp_servers (id) ON DELETE CASCADE,
    tool        text NOT NULL,
    accepted    json,        -- NULL: the tool is new
    proposed    json,        -- NULL: the server lists the accepted one
    proposed_at timestamptz,
    PRIMARY KEY (server_id, tool),
    CHECK (accepted IS NOT NULL OR proposed IS NOT NULL)
);

-- +goose Down
SELECT 1;
