-- +goose Up

-- Chats whose run has yet to learn of a change: looked for every second.
CREATE INDEX chats_wake ON chats (session_id) WHERE wake_pending;

-- A foreign key without an index on its own side costs a walk of the whole table
-- for each deleted row of the other side. Constraints that another one implies go:
-- a tool call belongs to the chat and the session of its entry, and the tree of
-- entries is made by one function.
ALTER TABLE entries DROP CONSTRAINT entries_parent_id_fkey;
ALTER TABLE tool_calls DROP CONSTRAINT tool_calls_chat_id_fkey, DROP CONSTRAINT tool_calls_session_id_fkey;
CREATE INDEX branches_parent ON branches (parent_branch_id) WHERE parent_branch_id IS NOT NULL;
CREATE INDEX chats_branch ON chats (branch_id);
CREATE INDEX inbox_chat ON inbox (chat_id);
CREATE INDEX questions_session ON questions (session_id);
CREATE INDEX questions_chat ON questions (chat_id);
CREATE INDEX questions_entry ON questions (entry_id);
CREATE INDEX loops_chat ON loops (chat_id);
CREATE INDEX loops_branch ON loops (branch_id);
CREATE INDEX compactions_branch ON compactions (branch_id);
CREATE INDEX history_operations_checkpoint ON history_operations (checkpoint_id) WHERE checkpoint_id IS NOT NULL;
CREATE INDEX history_operations_left ON history_operations (left_id);
CREATE INDEX history_operations_branch ON history_operations (branch_id);

-- Deleted sessions whose content has yet to be removed, of all owners.
CREATE INDEX sessions_to_remove ON sessions (id) WHERE deleted_at IS NOT NULL;

-- +goose Down
SELECT 1;
