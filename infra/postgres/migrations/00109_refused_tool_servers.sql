-- +goose Up

-- Tool servers whose tools a model server refused. Later prompts of the session to the same
-- model leave them out while their tools are the same.
CREATE TABLE refused_tool_servers (
    session_id text        NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    model      text        NOT NULL,
    server     text        NOT NULL,
    tools      text        NOT NULL, -- a digest
    refused_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, model, server, tools)
);

-- +goose Down
SELECT 1;
