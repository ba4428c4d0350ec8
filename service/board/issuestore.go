package board

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

// runStatus is the status of the issue run r whose session is s.
const runStatus = `CASE WHEN r.status = 'running' AND s.status = 'waiting_for_input' THEN 'waiting' ELSE r.status END`

// issueColumns give a board.Issue of the row i of the workspace w.
const issueColumns = `
	i.id, i.workspace_id, i.number, w.issue_prefix || '-' || i.number AS identifier, i.title, i.description, i.status, i.priority,
	i.assignee_type, i.assignee_id,
	CASE i.assignee_type
	WHEN 'member' THEN (SELECT jsonb_build_object('name', coalesce(nullif(u.name, ''), u.username), 'avatar', coalesce(u.avatar_url, ''))
	                    FROM users u WHERE u.id = i.assignee_id)
	WHEN 'agent'  THEN (SELECT jsonb_build_object('name', a.name, 'avatar', a.icon) FROM agent_instances a WHERE a.id = i.assignee_id)
	WHEN 'squad'  THEN (SELECT jsonb_build_object('name', q.name, 'avatar', '') FROM prod_squads q WHERE q.id = i.assignee_id)
	END AS assignee,
	'member' AS creator_type, i.creator_id, i.parent_issue_id, i.project, i.position, i.stage, i.start_date, i.due_date, i.labels,
	    i.metadata,
	i.revision, i.last_activity_at, i.first_started_at, i.closed_at, i.created_at, i.updated_at,
	    i.started_by,
	(SELECT jsonb_build_object('id', r.id, 'status', ` + runStatus + `)
	 FROM   issue_runs r LEFT JOIN sessions s ON s.id = r.session_id
	 WHERE  r.issue_id = i.id AND r.status IN ('queued', 'dispatched', 'running') AND NOT r.cancel_requested) AS active_run`

const issueTables = `issues i JOIN prod_workspaces w ON w.id = i.workspace_id`

// CreateIssue creates an issue. One that is assigned to an agent or a squad starts a run,
// unless that is suppressed.
func (s *Store) CreateIssue(ctx context.Context, userID, workspaceID string, in board.IssueFields) (
	made board.Issue, plan board.IssueRunPlan, err error,
) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = board.IssueRunPlan{}

		if in.ID != "" { // created before
			var err error
			if made, err = issue(ctx, tx, workspaceID, in.ID, ""); !domain.HasCode(err, board.CodeIssueNotFound) {
				return err
			}
		}

		if err := needs(ctx, tx, userID, workspaceID, board.WorkspaceMember); err != nil {
			return err
		}

		made = board.Issue{
			ID:          cmp.Or(in.ID, domain.NewID()),
			WorkspaceID: workspaceID,
			Status:      board.IssueTodo,
			Priority:    board.PriorityNone,
			Labels:      []string{},
		}
		// The row of the workspace orders creations: numbers have no gaps, and creations count each other.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM prod_workspaces WHERE id = $1 FOR NO KEY UPDATE`, workspaceID); err != nil {
			return err
		}

		err := tx.QueryRow(ctx, `
			UPDATE prod_workspaces SET last_number = last_number + 1
			WHERE  id = $1 AND (SELECT count(*) FROM issues WHERE workspace_id = $1) < $2 RETURNING last_number`,
			workspaceID, board.MaxIssues).Scan(&made.Number)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.Newf(domain.Conflict, "issue_limit", "a workspace may have %d issues", board.MaxIssues)
		}

		if err != nil {
			return err
		}

		made.Position = float64(made.Number)
		if err := apply(ctx, tx, userID, &made, in); err != nil {
			return err
		}

		args := issueArgs(made)

		args["user"], args["started_by"], args["waiter"] = userID, in.StartedBy, in.Waiter
		if _, err := tx.Exec(ctx, `
			INSERT INTO issues (id, workspace_id, number, title, description, status, priority, assignee_type, assignee_id, creator_id,
			                    parent_issue_id, project, position, stage, start_date, due_date, labels, metadata, changed_by,
			                    assigned_by, first_started_at, closed_at, started_by, waiter)
			VALUES (@id, @workspace, @number, @title, @description, @status, @priority, @assignee_type, @assignee, @user,
			        @parent, @project, @position, @stage, @start, @due, @labels, @metadata, @user,
			        CASE WHEN @assignee::text IS NOT NULL THEN @user::text END,
			        CASE WHEN @status = 'in_progress' THEN now() END, CASE WHEN @status IN ('done', 'cancelled') THEN now() END,
			        nullif(@started_by, ''), nullif(@waiter, ''))`,
			args); err != nil {
			return err
		}

		by := actor{board.ActorMember, userID}
		if err := record(ctx, tx, made.ID, by, []board.Activity{{Action: board.ActionCreated}}); err != nil {
			return err
		}

		if made.AssigneeID != nil && *made.AssigneeType != board.ActorMember && !in.SuppressRun && !made.Status.Closed() {
			if err := startRun(ctx, tx, made, trigger{kind: board.TriggerAssign, by: by, note: in.HandoffNote}, &plan); err != nil {
				return err
			}
		}

		made, err = issue(ctx, tx, workspaceID, made.ID, "")

		return err
	})

	return made, plan, pg.Fault("create issue", err)
}

// Issue reads one issue.
func (s *Store) Issue(ctx context.Context, userID, workspaceID, id string) (found board.Issue, err error) {
	if _, err = roleOf(ctx, s.db.Pool, userID, workspaceID); err == nil {
		found, err = issue(ctx, s.db.Pool, workspaceID, id, "")
	}

	return found, pg.Fault("read issue", err)
}

func issue(ctx context.Context, q pg.Queryer, workspaceID, id, lock string) (board.Issue, error) {
	rows, _ := q.Query(ctx, `SELECT `+issueColumns+` FROM `+issueTables+` WHERE i.id = $1 AND i.workspace_id = $2 `+lock, id, workspaceID)

	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[board.Issue])
	if errors.Is(err, pgx.ErrNoRows) {
		return found, board.IssueNotFound(id)
	}

	return found, err
}

// lockIssue takes the row of an issue, which orders its changes and its runs. The columns
// that are computed of other rows are read after the lock.
func lockIssue(ctx context.Context, tx pgx.Tx, workspaceID, id string) (board.Issue, error) {
	if _, err := tx.Exec(ctx, `SELECT 1 FROM issues WHERE id = $1 AND workspace_id = $2 FOR UPDATE`, id, workspaceID); err != nil {
		return board.Issue{}, err
	}

	return issue(ctx, tx, workspaceID, id, "")
}

// ChangeIssue sets the fields that are given. Another assignee ends the run of the one
// before, and starts one if it is an agent or a squad; closing an issue ends its run.
func (s *Store) ChangeIssue(ctx context.Context, userID, workspaceID, id string, in board.IssueFields) (
	changed board.Issue, plan board.IssueRunPlan, err error,
) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = board.IssueRunPlan{}

		if err := needs(ctx, tx, userID, workspaceID, board.WorkspaceMember); err != nil {
			return err
		}

		before, err := lockIssue(ctx, tx, workspaceID, id)
		if err != nil {
			return err
		}

		if err := checkRevision(ctx, tx, before, in.ExpectedRevision); err != nil {
			return err
		}

		after := before
		if err := apply(ctx, tx, userID, &after, in); err != nil {
			return err
		}

		by := actor{board.ActorMember, userID}

		differences := board.Differences(before, after)
		if err := store(ctx, tx, after, by, differences); err != nil {
			return err
		}

		if err := moveRuns(ctx, tx, after, differences, in, by, &plan); err != nil {
			return err
		}

		changed, err = issue(ctx, tx, workspaceID, id, "")

		return err
	})

	return changed, plan, pg.Fault("change issue", err)
}

// DeleteIssue removes an issue with its comments, changes and runs. Its parts stay, without
// a parent, and so do the sessions of its runs. Its creator may do that, and
// administrators of the workspace; not while a run works on it, or is being stopped.
func (s *Store) DeleteIssue(ctx context.Context, userID, workspaceID, id string) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		role, err := roleOf(ctx, tx, userID, workspaceID)
		if err != nil {
			return err
		}

		found, err := lockIssue(ctx, tx, workspaceID, id)
		if err != nil {
			return err
		}

		needed := board.WorkspaceAdmin
		if found.CreatorID == userID {
			needed = board.WorkspaceMember
		}

		if err := board.NeedsRole(role, needed); err != nil {
			return err
		}

		var run string

		err = tx.QueryRow(ctx, `
			SELECT id FROM issue_runs WHERE issue_id = $1 AND status IN ('queued', 'dispatched', 'running') LIMIT 1`, id).Scan(&run)
		switch {
		case err == nil:
			return domain.Newf(domain.Conflict, codeRunActive, "run %s works on the issue, or is being stopped: cancel it first", run)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}

		_, err = tx.Exec(ctx, `DELETE FROM issues WHERE id = $1`, id)

		return err
	})

	return pg.Fault("delete issue", err)
}

func checkRevision(ctx context.Context, tx pgx.Tx, found board.Issue, expected *int) error {
	if expected == nil || *expected == found.Revision {
		return nil
	}

	conflict := domain.VersionConflict{CurrentVersion: found.Revision, ChangedAt: found.UpdatedAt}
	if err := tx.QueryRow(ctx, `SELECT changed_by FROM issues WHERE id = $1`, found.ID).Scan(&conflict.ChangedBy); err != nil {
		return err
	}

	e := domain.Newf(domain.Conflict, "version_conflict", "the issue was changed: its revision is %d", found.Revision)
	e.Version = &conflict

	return e
}

// moveRuns ends and starts runs as a change of the assignee or the status asks for.
func moveRuns(
	ctx context.Context,
	tx pgx.Tx,
	after board.Issue,
	differences []board.Activity,
	in board.IssueFields,
	by actor,
	plan *board.IssueRunPlan,
) error {
	reassigned := false
	for _, d := range differences {
		reassigned = reassigned || d.Action == board.ActionAssigneeChanged
	}

	switch {
	case after.Status.Closed():
		return cancelRun(ctx, tx, after.ID, board.ReasonIssueClosed, plan)
	case !reassigned:
		return nil
	}

	if err := cancelRun(ctx, tx, after.ID, board.ReasonReassigned, plan); err != nil {
		return err
	}

	if after.AssigneeID == nil || *after.AssigneeType == board.ActorMember || in.SuppressRun {
		return nil
	}

	return startRun(ctx, tx, after, trigger{kind: board.TriggerAssign, by: by, note: in.HandoffNote}, plan)
}

// store writes the fields of an issue, and its activities.
func store(ctx context.Context, tx pgx.Tx, i board.Issue, by actor, differences []board.Activity) error {
	args := issueArgs(i)
	args["by"] = by.id

	_, err := tx.Exec(ctx, `
		UPDATE issues
		SET    title = @title, description = @description, status = @status, priority = @priority, assignee_type = @assignee_type,
		       assigned_by = CASE WHEN assignee_id IS NOT DISTINCT FROM @assignee::text THEN assigned_by ELSE @by END,
		       assignee_id = @assignee, parent_issue_id = @parent, project = @project, position = @position, stage = @stage,
		       start_date = @start, due_date = @due, labels = @labels, metadata = @metadata, revision = revision + 1, changed_by = @by,
		       first_started_at = CASE WHEN @status = 'in_progress' THEN coalesce(first_started_at, now()) ELSE first_started_at END,
		       closed_at = CASE WHEN @status IN ('done', 'cancelled') THEN coalesce(closed_at, now()) END,
		       updated_at = now(), last_activity_at = now()
		WHERE  id = @id`, args)
	if err != nil {
		return err
	}

	return record(ctx, tx, i.ID, by, differences)
}

func issueArgs(i board.Issue) pgx.NamedArgs {
	metadata := i.Metadata
	if len(metadata) == 0 {
		metadata = json.RawMessage(`{}`)
	}

	return pgx.NamedArgs{
		"id": i.ID, "workspace": i.WorkspaceID, "number": i.Number, "title": i.Title, "description": i.Description, "status": i.Status,
		"priority": i.Priority, "assignee_type": i.AssigneeType, "assignee": i.AssigneeID, "parent": i.ParentIssueID, "project": i.Project,
		"position": i.Position, "stage": i.Stage, "start": i.StartDate, "due": i.DueDate, "labels": i.Labels, "metadata": metadata,
	}
}

// apply sets what is given, and checks what it names.
func apply(ctx context.Context, tx pgx.Tx, userID string, i *board.Issue, in board.IssueFields) error {
	set(&i.Title, in.Title)
	set(&i.Description, in.Description)
	set(&i.Status, in.Status)
	set(&i.Priority, in.Priority)
	set(&i.Position, in.Position)

	if in.Labels != nil {
		i.Labels = in.Labels
	}

	if in.Metadata != nil {
		i.Metadata = in.Metadata
	}

	change(&i.Project, in.Project)
	change(&i.Stage, in.Stage)
	change(&i.StartDate, in.StartDate)
	change(&i.DueDate, in.DueDate)

	if err := setParent(ctx, tx, i, in.Parent); err != nil {
		return err
	}

	if in.Assignee == nil {
		return nil
	}

	if in.Assignee.None() {
		i.AssigneeType, i.AssigneeID = nil, nil
		return nil
	}

	if i.AssigneeID != nil && *i.AssigneeID == in.Assignee.ID && (in.Assignee.Type == "" || in.Assignee.Type == *i.AssigneeType) {
		return nil // as before, also if it is gone
	}

	found, err := resolve(ctx, tx, userID, i.WorkspaceID, *in.Assignee)
	if err == nil {
		i.AssigneeType, i.AssigneeID = &found.Type, &found.ID
	}

	return err
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func change[T any](field **T, value board.Change[T]) {
	if value.Set {
		*field = value.Value
	}
}

// setParent makes an issue a part of another one of its workspace, which is no part of it.
func setParent(ctx context.Context, tx pgx.Tx, i *board.Issue, parent board.Change[string]) error {
	if !parent.Set {
		return nil
	}

	i.ParentIssueID = parent.Value
	if parent.Value == nil {
		return nil
	}

	var (
		found, cycle bool
		above, below int
	)
	// Both walks are bounded: what is stored has no cycle and is no deeper.
	err := tx.QueryRow(ctx, `
		WITH RECURSIVE up AS (
			SELECT id, parent_issue_id, 1 AS depth FROM issues WHERE id = @parent AND workspace_id = @workspace
			UNION ALL
			SELECT p.id, p.parent_issue_id, up.depth + 1 FROM issues p JOIN up ON p.id = up.parent_issue_id WHERE up.depth <= @most),
		down AS (
			SELECT id, 0 AS depth FROM issues WHERE id = @id
			UNION ALL
			SELECT c.id, down.depth + 1 FROM issues c JOIN down ON c.parent_issue_id = down.id WHERE down.depth <= @most)
		SELECT EXISTS (SELECT 1 FROM up), EXISTS (SELECT 1 FROM up WHERE id = @id), coalesce((SELECT max(depth) FROM up), 0),
		       coalesce((SELECT max(depth) FROM down), 0)`,
		pgx.NamedArgs{"parent": *parent.Value, "workspace": i.WorkspaceID, "id": i.ID, "most": board.MaxIssueDepth}).
		Scan(&found, &cycle, &above, &below)
	switch {
	case err != nil:
		return err
	case !found:
		return board.IssueNotFound(*parent.Value)
	case cycle:
		return domain.Newf(domain.Conflict, "parent_cycle", "an issue cannot be a part of itself or of its parts")
	case above+below > board.MaxIssueDepth:
		return domain.Newf(domain.Conflict, "parent_too_deep", "issues may be parts of parts %d times", board.MaxIssueDepth)
	}

	return nil
}

// resolve finds who an issue must be assigned to: a member of the workspace, an agent
// instance that the user sees there, or a squad.
func resolve(ctx context.Context, q pg.Queryer, userID, workspaceID string, ref board.AssigneeRef) (found board.AssigneeRef, err error) {
	rows, _ := q.Query(ctx, `
		SELECT kind, id FROM (
			SELECT 'member' AS kind, u.id, lower(u.username) = lower(@name) OR lower(u.name) = lower(@name) AS named
			FROM   prod_workspace_members m JOIN users u ON u.id = m.user_id AND u.deleted_at IS NULL WHERE m.workspace_id = @workspace
			UNION ALL
			SELECT 'agent', a.id, lower(a.name) = lower(@name) FROM `+visibleAgents+`
			UNION ALL
			SELECT 'squad', id, lower(name) = lower(@name) FROM prod_squads WHERE workspace_id = @workspace) c
		WHERE (@kind = '' OR kind = @kind) AND CASE WHEN @id = '' THEN named ELSE id = @id END LIMIT 2`,
		pgx.NamedArgs{"kind": ref.Type, "id": ref.ID, "name": ref.Name, "workspace": workspaceID, "caller": userID})

	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a board.AssigneeRef, err error) {
		return a, row.Scan(&a.Type, &a.ID)
	})
	switch {
	case err != nil:
		return found, err
	case len(all) == 0:
		return found, domain.Newf(domain.NotFound, "assignee_not_found", "the workspace has no such member, agent or squad")
	case len(all) > 1:
		return found, domain.Newf(domain.Conflict, "assignee_ambiguous", "the workspace has several of this name: give the id")
	}

	return all[0], nil
}

// actor is who changes an issue.
type actor struct {
	kind board.ActorType
	id   string
}

// record adds activities to an issue, and removes the oldest ones beyond
// MaxIssueActivity.
func record(ctx context.Context, tx pgx.Tx, issueID string, by actor, activities []board.Activity) error {
	if len(activities) == 0 {
		return nil
	}

	for _, a := range activities {
		details, err := json.Marshal(map[string]any{"from": a.From, "to": a.To})
		if err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `
			INSERT INTO issue_activity (id, issue_id, actor_type, actor_id, action, details, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())`,
			domain.NewID(), issueID, by.kind, by.id, a.Action, details); err != nil {
			return err
		}
	}

	_, err := tx.Exec(ctx, `
		DELETE FROM issue_activity WHERE id IN (
			SELECT id FROM issue_activity WHERE issue_id = $1 ORDER BY id DESC OFFSET $2)`, issueID, board.MaxIssueActivity)

	return err
}
