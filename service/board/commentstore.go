package board

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

const commentColumns = `id, issue_id, author_type, author_id, content, parent_id, source_run_id, created_at, updated_at, resolved_at`

// AddComment stores a comment of a member. What an agent gets of it follows
// from the plan: it answers the question of a run, or starts a run.
func (s *Store) AddComment(ctx context.Context, userID, workspaceID, issueID string, in board.NewComment) (
	made board.Comment, plan board.IssueRunPlan, err error,
) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = board.IssueRunPlan{}

		if err := needs(ctx, tx, userID, workspaceID, board.WorkspaceMember); err != nil {
			return err
		}

		found, err := lockIssue(ctx, tx, workspaceID, issueID)
		if err != nil {
			return err
		}

		if err := mayComment(ctx, tx, issueID, in); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			INSERT INTO issue_comments (id, issue_id, author_type, author_id, content, parent_id, created_at, updated_at)
			VALUES ($1, $2, 'member', $3, $4, $5, clock_timestamp(), clock_timestamp()) RETURNING `+commentColumns,
			domain.NewID(), issueID, userID, in.Content, in.ParentID)
		if made, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[board.Comment]); err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `UPDATE issues SET last_activity_at = now() WHERE id = $1`, issueID); err != nil {
			return err
		}

		if in.SuppressRun {
			return nil
		}

		return follow(ctx, tx, found, made, &plan)
	})

	return made, plan, pg.Fault("add comment", err)
}

func mayComment(ctx context.Context, tx pgx.Tx, issueID string, in board.NewComment) error {
	var (
		count  int
		parent bool
	)

	err := tx.QueryRow(ctx, `
		SELECT count(*), $2::text IS NULL OR coalesce(bool_or(id = $2), false) FROM issue_comments
		    WHERE issue_id = $1`, issueID, in.ParentID).
		Scan(&count, &parent)
	switch {
	case err != nil:
		return err
	case !parent:
		return domain.Newf(domain.NotFound, "comment_not_found", "comment %s does not exist", *in.ParentID)
	case count >= board.MaxIssueComments:
		return domain.Newf(domain.Conflict, "comment_limit", "an issue may have %d comments", board.MaxIssueComments)
	}

	return nil
}

// Comments lists the comments of an issue, oldest first: a page, and how many there are.
func (s *Store) Comments(
	ctx context.Context,
	userID, workspaceID, issueID string,
	limit, offset int,
) (page []board.Comment, total int, err error) {
	if _, err := s.Issue(ctx, userID, workspaceID, issueID); err != nil {
		return nil, 0, err
	}

	var batch pgx.Batch
	batch.Queue(`SELECT `+commentColumns+` FROM issue_comments WHERE issue_id = $1 ORDER BY id LIMIT $2 OFFSET $3`, issueID, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, pgx.RowToStructByName[board.Comment])
			return err
		})
	batch.Queue(`SELECT count(*) FROM issue_comments WHERE issue_id = $1`, issueID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list comments", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// Timeline gives a page of what happened to an issue. Ids grow with time over all kinds.
func (s *Store) Timeline(
	ctx context.Context,
	userID, workspaceID, issueID string,
	q board.TimelineQuery,
) (page board.Timeline, err error) {
	if _, err := s.Issue(ctx, userID, workspaceID, issueID); err != nil {
		return page, err
	}

	order := "DESC"
	if q.After != "" {
		order = "ASC"
	}

	rows, _ := s.db.Pool.Query(ctx, `
		SELECT * FROM (
			SELECT 'comment' AS type, id, author_type AS actor_type, author_id AS actor_id, created_at, content, parent_id, updated_at,
			    resolved_at,
			       source_run_id, NULL::text AS action, NULL::jsonb AS details, NULL::text AS run_id, NULL::text AS status
			FROM   issue_comments WHERE issue_id = @issue
			UNION  ALL
			SELECT 'activity', id, actor_type, actor_id, created_at, NULL, NULL, NULL, NULL, NULL, action, details, NULL, NULL
			FROM   issue_activity WHERE issue_id = @issue
			UNION  ALL
			SELECT 'run', r.id, 'agent', r.agent_id, r.created_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, r.id, `+runStatus+`
			FROM   issue_runs r LEFT JOIN sessions s ON s.id = r.session_id WHERE r.issue_id = @issue) t
		WHERE (cardinality(@kinds::text[]) = 0 OR type = ANY (@kinds)) AND (@before = '' OR id < @before) AND (@after = '' OR id > @after)
		ORDER  BY id `+order+` LIMIT @limit`,
		pgx.NamedArgs{"issue": issueID, "kinds": list(q.Kinds), "before": q.Before, "after": q.After, "limit": q.Limit})

	page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByName[board.TimelineEntry])
	if err != nil {
		return page, pg.Fault("read timeline", err)
	}

	for i := range page.Items {
		page.Items[i].Attachments = []string{}
	}

	if order == "DESC" {
		for i, j := 0, len(page.Items)-1; i < j; i, j = i+1, j-1 {
			page.Items[i], page.Items[j] = page.Items[j], page.Items[i]
		}
	}

	return page, pg.Fault("read timeline", s.completeTimeline(ctx, issueID, q.Kinds, &page))
}

// completeTimeline adds the cursors of a page, and what it leaves out before it. Kinds
// that were not asked for are not left out.
func (s *Store) completeTimeline(ctx context.Context, issueID string, kinds []string, page *board.Timeline) error {
	if len(page.Items) == 0 {
		return nil
	}

	first, last := page.Items[0].ID, page.Items[len(page.Items)-1].ID
	page.After = &last

	var runs bool

	err := s.db.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM issue_comments WHERE issue_id = $1 AND id < $2),
		       EXISTS (SELECT 1 FROM issue_activity WHERE issue_id = $1 AND id < $2)
		       OR (SELECT count(*) >= $3 FROM issue_activity WHERE issue_id = $1),
		       EXISTS (SELECT 1 FROM issue_runs WHERE issue_id = $1 AND id < $2)`, issueID, first, board.MaxIssueActivity).
		Scan(&page.Truncated.Comments, &page.Truncated.Activity, &runs)

	asked := func(kind string) bool { return len(kinds) == 0 || slices.Contains(kinds, kind) }
	page.Truncated.Comments = page.Truncated.Comments && asked("comment")
	page.Truncated.Activity = page.Truncated.Activity && asked("activity")

	if page.Truncated.Comments || page.Truncated.Activity || runs && asked("run") {
		page.Before = &first
	}

	return err
}
