package sessions

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// keptColumns give what the row s itself says of a session; keptFields are where
// they go.
const keptColumns = `
	s.id, s.owner_id, s.intent, s.status, s.solution_id, s.biz_role_id, s.template_id, s.primary_skill_id, s.model,
	s.software_factory_id, s.workspace_id, s.mode, s.shared, s.is_pinned, s.memory_enabled, s.is_persistent, s.env,
	s.disable_tools, s.setup, s.sandbox_uid, s.active_branch_id, s.active_chat_id,
	s.init_task_id, s.assists_solutions, s.created_at, s.updated_at`

func keptFields(s *domain.Session) []any {
	return []any{
		&s.ID,
		&s.OwnerID,
		&s.Intent,
		&s.Status,
		&s.SolutionID,
		&s.BizRoleID,
		&s.TemplateID,
		&s.PrimarySkillID,
		&s.Model,
		&s.SoftwareFactory,
		&s.WorkspaceID,
		&s.Mode,
		&s.Shared,
		&s.Pinned,
		&s.MemoryEnabled,
		&s.Persistent,
		&s.Env,
		&s.DisableTools,
		&s.Setup,
		&s.SandboxUID,
		&s.ActiveBranchID,
		&s.ActiveChatID,
		&s.InitTaskID,
		&s.AssistsSolutions,
		&s.CreatedAt,
		&s.UpdatedAt,
	}
}

// atRest says of the row s that what is computed of it is known without: it waits
// for nothing, has an empty queue, runs nothing in the background and is no replay. It
// leaves out a session that failed, which may wait for a budget.
const atRest = `
	s.active_chat_id IS NULL AND s.status NOT IN ('waiting_for_input', 'failed')
	AND NOT EXISTS (SELECT 1 FROM background_tasks b WHERE b.session_id = s.id AND b.finished_at IS NULL AND b.status = 'running')
	AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = s.id AND i.state = 'queued')
	AND NOT EXISTS (SELECT 1 FROM replays r WHERE r.session_id = s.id)`

var visible = `
	FROM   sessions s
	WHERE  s.id = $1 AND ` + visibleTo("$2", "$3")

// visibleTo returns the condition under which a user may see the session s.
func visibleTo(userID, administrator string) string {
	return `s.deleted_at IS NULL AND (s.owner_id = ` + userID + ` OR s.shared OR ` + administrator + `
	       OR s.workspace_id IS NOT NULL AND EXISTS (
	           SELECT 1 FROM prod_workspace_members o JOIN prod_workspace_members m
	                  ON m.workspace_id = o.workspace_id AND m.user_id = ` + userID + `
	           WHERE  o.workspace_id = s.workspace_id AND o.user_id = s.owner_id))`
}

// Visible reports of each viewer whether they may see their session, by the rule of
// ReadSession.
func (db *Base) Visible(ctx context.Context, viewers []domain.SessionViewer) ([]bool, error) {
	ids, users, administrators := make([]domain.SessionID, len(viewers)), make([]string, len(viewers)), make([]bool, len(viewers))
	for i, v := range viewers {
		ids[i], users[i], administrators[i] = v.SessionID, v.User.ID, v.User.Administrator
	}

	rows, _ := db.Pool.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM sessions s WHERE s.id = v.session_id AND `+visibleTo("v.user_id", "v.administrator")+`)
		FROM   unnest($1::text[], $2::text[], $3::boolean[]) WITH ORDINALITY AS v (session_id, user_id, administrator, n)
		ORDER  BY v.n`, ids, users, administrators)
	seen, err := pgx.CollectRows(rows, pgx.RowTo[bool])

	return seen, pg.Fault("check who may see sessions", err)
}

// ReadSession reads a session that the caller may see: their own, a shared one, one of a
// production workspace of which they and its owner are members, and any one for an
// administrator. All others do not exist for them.
func (db *Base) ReadSession(ctx context.Context, caller domain.User, id domain.SessionID) (domain.Session, domain.ViewerRole, error) {
	session, err := db.readVisible(ctx, id, caller.ID, caller.Administrator)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.Session{}, "", domain.SessionNotFound(id)
	}

	if err != nil {
		return domain.Session{}, "", pg.Fault("read session", err)
	}

	switch {
	case session.OwnerID == caller.ID:
		return session, domain.ViewerOwner, nil
	case caller.Administrator:
		return session, domain.ViewerAdmin, nil
	default:
		return session, domain.ViewerViewer, nil
	}
}

// readVisible asks for what is computed of a session only if there is something
// to compute: a statement that could compute it all opens ten tables, and takes
// more than twice the time even when it looks into none of them. All that it
// gives is of one moment.
func (db *Base) readVisible(ctx context.Context, args ...any) (session domain.Session, err error) {
	var rests bool

	err = db.Pool.QueryRow(ctx, `SELECT `+keptColumns+`, `+noToolServers+`, `+restsSince+`, s.last_end, `+atRest+visible, args...).
		Scan(append(keptFields(&session), &session.NoToolServers, &session.RestsSince, &session.LastEnd, &rests)...)
	if err != nil {
		return session, err
	}

	if rests {
		session.WaitingReason = domain.WaitingNone
		return session, nil
	}

	rows, _ := db.Pool.Query(ctx, `SELECT `+sessionColumns+visible, args...)

	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])
}

// ByID reads a session for work that was authorised when it was sent.
func ByID(ctx context.Context, q pg.Queryer, id domain.SessionID) (domain.Session, error) {
	rows, _ := q.Query(ctx, `SELECT `+plainColumns+` FROM sessions s WHERE s.id = $1 AND s.deleted_at IS NULL`, id)

	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])
	if errors.Is(err, pgx.ErrNoRows) {
		return session, domain.SessionNotFound(id)
	}

	return session, pg.Fault("read session", err)
}
