-- +goose Up

-- What a session has at most a few dozen rows of goes with its row. Tables that grow
-- with use are emptied in bounded steps before: one cascade over a million rows would
-- hold its locks for minutes.
ALTER TABLE checkpoint_usage DROP CONSTRAINT checkpoint_usage_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE;
ALTER TABLE mcp_connections DROP CONSTRAINT mcp_connections_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE;
ALTER TABLE mcp_servers DROP CONSTRAINT mcp_servers_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE;
ALTER TABLE replays DROP CONSTRAINT replays_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE;
ALTER TABLE session_extras DROP CONSTRAINT session_extras_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE;
ALTER TABLE session_skills DROP CONSTRAINT session_skills_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE;
ALTER TABLE skill_loads DROP CONSTRAINT skill_loads_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE;
ALTER TABLE skill_snapshots DROP CONSTRAINT skill_snapshots_session_id_fkey,
    ADD FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE;

-- +goose Down
SELECT 1;
