-- +goose Up

-- Annotations may be on a node of a run of a DAG, and go with it.
ALTER TABLE annotations
    ALTER COLUMN session_id DROP NOT NULL,
    ADD COLUMN run_node text REFERENCES dag_run_nodes (id) ON DELETE CASCADE,
    ADD CONSTRAINT annotations_of CHECK ((session_id IS NULL) <> (run_node IS NULL));
CREATE INDEX annotations_run_node ON annotations (run_node) WHERE run_node IS NOT NULL;

-- Any word is a visibility; only workspace opens an agent to others.
ALTER TABLE prod_agents DROP CONSTRAINT prod_agents_visibility_check;
ALTER TABLE agent_instances DROP CONSTRAINT agent_instances_visibility_check;

-- The address from which an API key was last used.
ALTER TABLE api_keys
    ADD COLUMN last_used_ip text;

-- +goose Down
SELECT 1;
