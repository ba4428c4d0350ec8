-- +goose Up

-- Init scripts of other users' agents that a user has read and lets run with their environment:
-- the digest of the script, for a production agent or an agent instance.
CREATE TABLE init_script_consents (
    user_id  text NOT NULL REFERENCES users (id),
    agent_id text NOT NULL,
    digest   text NOT NULL,
    PRIMARY KEY (user_id, agent_id)
);

-- +goose Down
SELECT 1;
