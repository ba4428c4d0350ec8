package board

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

// selected are the issues i of a workspace that a query selects.
const selected = issueTables + `
	WHERE i.workspace_id = @workspace
	AND   (@text = '' OR position(lower(@text) IN lower(i.title)) > 0 OR position(lower(@text) IN lower(i.description)) > 0
	       OR lower(w.issue_prefix || '-' || i.number) = lower(@text))
	AND   (cardinality(@statuses::text[]) = 0 OR i.status = ANY (@statuses))
	AND   (cardinality(@priorities::text[]) = 0 OR i.priority = ANY (@priorities))
	AND   (cardinality(@types::text[]) + cardinality(@assignees::text[]) = 0
	       OR (cardinality(@types::text[]) = 0 OR i.assignee_type = ANY (@types))
	          AND (cardinality(@assignees::text[]) = 0 OR i.assignee_id = ANY (@assignees))
	       OR @unassigned AND i.assignee_id IS NULL)
	AND   (cardinality(@creators::text[]) = 0 OR i.creator_id = ANY (@creators))
	AND   (cardinality(@projects::text[]) = 0 OR i.project = ANY (@projects))
	AND   (cardinality(@labels::text[]) = 0 OR i.labels && @labels)
	AND   (cardinality(@parents::text[]) = 0 OR i.parent_issue_id = ANY (@parents))
	AND   (NOT @top OR i.parent_issue_id IS NULL)
	AND   (NOT @open OR i.status NOT IN ('done', 'cancelled'))
	AND   (@updated::timestamptz IS NULL OR i.updated_at > @updated)
	AND   (@due::timestamptz IS NULL OR i.due_date < @due)`

func queryArgs(workspaceID string, q board.IssueQuery) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace":  workspaceID,
		"text":       q.Text,
		"statuses":   list(q.Statuses),
		"priorities": list(q.Priorities),
		"types":      list(q.AssigneeTypes),
		"assignees":  list(q.AssigneeIDs),
		"unassigned": q.IncludeNoAssignee,
		"creators":   list(q.CreatorIDs),
		"projects":   list(q.Projects),
		"labels":     list(q.Labels),
		"parents":    list(q.ParentIDs),
		"top":        q.TopLevelOnly,
		"open":       q.OpenOnly,
		"updated":    q.UpdatedAfter,
		"due":        q.DueBefore,
		"limit":      q.Limit,
		"offset":     q.Offset,
	}
}

// list keeps a missing list from becoming NULL.
func list(given []string) []string {
	if given == nil {
		return []string{}
	}

	return given
}

const priorityRank = `array_position(ARRAY['urgent', 'high', 'medium', 'low', 'none'], i.priority)`

// sorted are the orders of lists, ascending. Those that have no due date come last.
var sorted = map[board.IssueSort]string{
	board.SortPosition:     "i.position",
	board.SortPriority:     priorityRank,
	board.SortCreated:      "i.created_at",
	board.SortUpdated:      "i.updated_at",
	board.SortDue:          "i.due_date",
	board.SortLastActivity: "i.last_activity_at",
	board.SortTitle:        "lower(i.title)",
}

func orderOf(q board.IssueQuery) string {
	by, found := sorted[q.Sort]
	if !found {
		by = sorted[board.SortPosition]
	}

	if q.Descending {
		return by + " DESC NULLS LAST, i.number DESC"
	}

	return by + " NULLS LAST, i.number"
}

// QueryIssues selects issues: a page, and how many there are.
func (s *Store) QueryIssues(
	ctx context.Context,
	userID, workspaceID string,
	q board.IssueQuery,
) (page []board.Issue, total int, err error) {
	if _, err := roleOf(ctx, s.db.Pool, userID, workspaceID); err != nil {
		return nil, 0, pg.Fault("query issues", err)
	}

	args := queryArgs(workspaceID, q)

	var batch pgx.Batch
	batch.Queue(`SELECT `+issueColumns+` FROM `+selected+` ORDER BY `+orderOf(q)+` LIMIT @limit OFFSET @offset`, args).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, pgx.RowToStructByName[board.Issue])
			return err
		})
	batch.Queue(`SELECT count(*) FROM `+selected, args).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("query issues", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// groupKeys give the type and the id by which an issue i is grouped.
var groupKeys = map[board.IssueGrouping][2]string{
	board.GroupAssignee: {"coalesce(i.assignee_type, 'none')", "coalesce(i.assignee_id, '')"},
	board.GroupStatus:   {"'status'", "i.status"},
	board.GroupPriority: {"'priority'", "i.priority"},
	board.GroupProject:  {"CASE WHEN i.project IS NULL THEN 'none' ELSE 'project' END", "coalesce(i.project, '')"},
}

// GroupIssues selects issues in groups, the largest group first, each with a page of its
// issues. A key selects one group.
func (s *Store) GroupIssues(ctx context.Context, userID, workspaceID string, q board.IssueQuery, by board.IssueGrouping, key string) (
	groups []board.IssueGroup, err error,
) {
	if _, err := roleOf(ctx, s.db.Pool, userID, workspaceID); err != nil {
		return nil, pg.Fault("group issues", err)
	}

	args := queryArgs(workspaceID, q)
	args["key"], args["groups"] = key, board.MaxIssueGroups
	columns := groupKeys[by]
	rows, _ := s.db.Pool.Query(ctx, `
		WITH numbered AS (
			SELECT i.id, `+columns[0]+` AS kind, `+columns[1]+` AS key_id,
			       row_number() OVER (PARTITION BY `+columns[0]+`, `+columns[1]+` ORDER BY `+orderOf(q)+`) AS place,
			       count(*) OVER (PARTITION BY `+columns[0]+`, `+columns[1]+`) AS total
			FROM   `+selected+`
		), groups AS (
			SELECT kind, key_id, max(total) AS total, array_agg(id ORDER BY place) FILTER (WHERE place > @offset
			    AND place <= @offset + @limit) AS ids
			FROM   numbered WHERE @key = '' OR kind || ':' || key_id = @key GROUP BY kind, key_id
			ORDER  BY max(total) DESC, kind, key_id LIMIT @groups
		)
		SELECT g.kind, g.key_id, g.total, coalesce(g.ids, '{}'),
		       coalesce(CASE g.kind
		           WHEN 'member' THEN (SELECT coalesce(nullif(name, ''), username) FROM users WHERE id = g.key_id)
		           WHEN 'agent' THEN (SELECT name FROM agent_instances WHERE id = g.key_id)
		           WHEN 'squad' THEN (SELECT name FROM prod_squads WHERE id = g.key_id)
		           ELSE g.key_id END, '')
		FROM   groups g ORDER BY g.total DESC, g.kind, g.key_id`, args)

	var ids []string

	pages := [][]string{}

	groups, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (g board.IssueGroup, err error) {
		var (
			page []string
			id   string
		)

		err = row.Scan(&g.Key.Type, &id, &g.Total, &page, &g.Key.Name)

		g.ID = g.Key.Type + ":" + id
		if g.Key.Type != "none" {
			g.Key.ID = &id
		}

		ids, pages = append(ids, page...), append(pages, page)

		return g, err
	})
	if err != nil {
		return nil, pg.Fault("group issues", err)
	}

	found, err := s.issuesByID(ctx, workspaceID, ids)

	for n := range groups {
		groups[n].Items = []board.Issue{}
		for _, id := range pages[n] {
			if i, there := found[id]; there {
				groups[n].Items = append(groups[n].Items, i)
			}
		}
	}

	return groups, pg.Fault("group issues", err)
}

func (s *Store) issuesByID(ctx context.Context, workspaceID string, ids []string) (map[string]board.Issue, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT `+issueColumns+` FROM `+issueTables+` WHERE i.workspace_id = $1
		AND i.id = ANY ($2)`, workspaceID, ids)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[board.Issue])

	found := make(map[string]board.Issue, len(all))
	for _, i := range all {
		found[i.ID] = i
	}

	return found, err
}

// ChildProgress says of the issues of a workspace that have parts how far those are: a
// page, the newest issue first. With a parent it is of that one alone.
func (s *Store) ChildProgress(
	ctx context.Context,
	userID, workspaceID, parent string,
	limit, offset int,
) (page []board.ChildProgress, total int, err error) {
	if _, err := roleOf(ctx, s.db.Pool, userID, workspaceID); err != nil {
		return nil, 0, pg.Fault("read progress of issues", err)
	}

	var batch pgx.Batch
	batch.Queue(`
		WITH parents AS (
			SELECT parent_issue_id AS id FROM issues
			WHERE  workspace_id = $1 AND parent_issue_id IS NOT NULL AND ($2 = '' OR parent_issue_id = $2)
			GROUP  BY parent_issue_id ORDER BY parent_issue_id DESC LIMIT $3 OFFSET $4
		), stages AS (
			SELECT p.id, i.stage, count(*) AS total,
			       count(*) FILTER (WHERE i.status IN ('done', 'cancelled')) AS done,
			       count(*) FILTER (WHERE i.status IN ('in_progress', 'in_review')) AS in_progress,
			       count(*) FILTER (WHERE i.status = 'blocked') AS blocked
			FROM   parents p JOIN issues i ON i.parent_issue_id = p.id GROUP BY p.id, i.stage)
		SELECT id AS parent_issue_id, sum(total)::int AS total, sum(done)::int AS done, sum(in_progress)::int AS in_progress,
		       sum(blocked)::int AS blocked,
		       coalesce(jsonb_agg(jsonb_build_object('stage', stage, 'total', total, 'done', done)
		           ORDER BY stage) FILTER (WHERE stage IS NOT NULL),
		                '[]') AS by_stage
		FROM   stages GROUP BY id ORDER BY id DESC`, workspaceID, parent, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, pgx.RowToStructByName[board.ChildProgress])
			return err
		})
	batch.Queue(`
		SELECT count(DISTINCT parent_issue_id) FROM issues
		WHERE  workspace_id = $1 AND parent_issue_id IS NOT NULL AND ($2 = '' OR parent_issue_id = $2)`, workspaceID, parent).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("read progress of issues", s.db.Pool.SendBatch(ctx, &batch).Close())
}
