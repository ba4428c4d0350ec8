-- +goose Up

-- What a session was made for, which says how long it is kept.
ALTER TABLE sessions ADD COLUMN class text NOT NULL DEFAULT 'chat' CHECK (class IN ('chat', 'schedule', 'dag', 'issue'));

UPDATE sessions s SET class = first.trigger
FROM  (SELECT DISTINCT ON (session_id) session_id, trigger FROM chats ORDER BY session_id, id) first
WHERE  first.session_id = s.id AND first.trigger IN ('schedule', 'dag', 'issue')
AND    NOT EXISTS (SELECT 1 FROM scheduled_tasks t WHERE t.session_id = s.id);

CREATE INDEX sessions_age ON sessions (class, created_at) WHERE deleted_at IS NULL AND NOT is_pinned AND NOT shared AND NOT is_persistent;

-- +goose Down
SELECT 1;
