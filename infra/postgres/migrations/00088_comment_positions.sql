-- +goose Up

-- The order in which comments of an issue were committed: the lock of the issue is held when a
-- position is assigned. Their ids are made of the clocks of several machines.
ALTER TABLE issue_comments ADD COLUMN position bigint;
UPDATE issue_comments c SET position = n.position
FROM   (SELECT id, row_number() OVER (ORDER BY id) AS position FROM issue_comments) n WHERE n.id = c.id;
ALTER TABLE issue_comments ALTER COLUMN position SET NOT NULL, ALTER COLUMN position ADD GENERATED ALWAYS AS IDENTITY;
SELECT setval(pg_get_serial_sequence('issue_comments', 'position'), coalesce((SELECT max(position) FROM issue_comments), 0) + 1, false);

-- What a run has read of the comments: up to this position.
ALTER TABLE issue_runs ADD COLUMN seen_position bigint NOT NULL DEFAULT 0, ADD COLUMN upto_position bigint;
UPDATE issue_runs r
SET    seen_position = coalesce((SELECT max(c.position) FROM issue_comments c WHERE c.issue_id = r.issue_id AND c.id <= r.seen_comment), 0),
       upto_position = CASE WHEN r.upto_comment IS NOT NULL THEN
           coalesce((SELECT max(c.position) FROM issue_comments c WHERE c.issue_id = r.issue_id AND c.id <= r.upto_comment), 0) END;
ALTER TABLE issue_runs DROP COLUMN seen_comment, DROP COLUMN upto_comment;

-- +goose Down
SELECT 1;
