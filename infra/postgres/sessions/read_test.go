package sessions_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

// TestASessionIsReadAsItIsListed holds that a session at rest, of which nothing is
// computed, is returned as it would be if it were.
func TestASessionIsReadAsItIsListed(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	model, factory := "m-1", int64(7)
	s, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{
		Intent: "all of it", Model: &model, SolutionID: &model, BizRoleID: &model, TemplateID: &model, PrimarySkillID: &model,
		WorkspaceID: &model, SoftwareFactory: &factory, MemoryEnabled: true, Persistent: true, Env: map[string]string{"A": "b"},
		DisableTools: []string{"Bash"}, Setup: domain.SessionSetup{MaxSteps: 5},
	})
	require.NoError(t, err)

	chat := domain.NewID()
	for _, step := range []struct {
		what, sql string
		args      []any
		waiting   domain.WaitingReason
		queue     int
	}{
		{what: "created", waiting: domain.WaitingNone},
		{what: "completed", sql: `UPDATE sessions SET status = 'completed' WHERE id = $1`, waiting: domain.WaitingNone},
		{
			what: "a chat", waiting: domain.WaitingNone,
			sql: `INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, finish_reason)
			      VALUES ($2, $1, $3, 'user', 'executing', 'ended', 'budget_exhausted')`, args: []any{chat, s.ActiveBranchID},
		},
		{what: "its budget", sql: `UPDATE sessions SET status = 'failed' WHERE id = $1`, waiting: domain.WaitingBudget},
		{what: "interrupted", sql: `UPDATE sessions SET status = 'interrupted' WHERE id = $1`, waiting: domain.WaitingNone},
		{
			what: "a message", waiting: domain.WaitingQueued, queue: 1,
			sql: `INSERT INTO inbox (session_id, kind, chat_id, turn_id, delivery_applied, position, parts)
			      VALUES ($1, 'message', $2, $2, 'enqueue', 1, '[]')`, args: []any{chat},
		},
		{what: "a running chat", sql: `UPDATE sessions SET status = 'running', active_chat_id = $2
			WHERE id = $1`, args: []any{chat}, waiting: domain.WaitingQueued, queue: 1},
		{what: "it waits for its model", sql: `UPDATE chats SET waiting_reason = 'model'
			WHERE session_id = $1`, waiting: domain.WaitingModel, queue: 1},
		{what: "the message is taken", sql: `UPDATE inbox SET state = 'taken' WHERE session_id = $1`, waiting: domain.WaitingModel},
		{what: "a question", sql: `UPDATE sessions SET status = 'waiting_for_input', active_chat_id = NULL
			WHERE id = $1`, waiting: domain.WaitingQuestion},
		{what: "at rest again", sql: `UPDATE sessions SET status = 'completed' WHERE id = $1`, waiting: domain.WaitingNone},
		{
			what: "a replay", waiting: domain.WaitingNone,
			sql: `INSERT INTO replays (session_id, source_session_id, speed, status, script, total) VALUES ($1, 'x', 1, 'playing', '', 3)`,
		},
	} {
		if step.sql != "" {
			_, err := db.Pool.Exec(t.Context(), step.sql, append([]any{s.ID}, step.args...)...)
			require.NoError(t, err, step.what)
		}

		read, role, err := db.ReadSession(t.Context(), ann, s.ID)
		require.NoError(t, err, step.what)
		require.Equal(t, domain.ViewerOwner, role)
		require.Equal(t, step.waiting, read.WaitingReason, step.what)
		require.Equal(t, step.queue, read.QueueLength, step.what)
		require.Equal(t, step.what == "a replay", read.Replay != nil)
		require.True(t, read.NoToolServers)
		page, err := db.Sessions(t.Context(), domain.SessionQuery{OwnerID: ann.ID, Limit: 1})
		require.NoError(t, err)
		require.Equal(t, page.Items[0], read, step.what)
	}
}
