package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/webhook"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
	boards "everloop/service/board"
	"everloop/service/webhooks"
)

func TestBase_questionPolicies(t *testing.T) {
	t.Parallel()
	d := newDecisions(t)
	hook, err := webhooks.NewStore(d.store.DB).CreateWebhook(t.Context(), d.owner, domain.NewID(), webhook.Spec{
		URL: "https://hooks.example.org/", Events: []webhook.Event{webhook.QuestionEscalated}, Enabled: true,
	}, []byte("sealed"))
	require.NoError(t, err)

	for id, call := range map[string]string{"due": "asks", "later": "asks more"} {
		d.set(
			`INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, expires_at, default_policy, escalate_at)
			VALUES ($1, $2, 'chat', 'turn of root', $3, 'root', '[{"question":"Which?"}]',
			        now() + CASE WHEN $1 = 'due' THEN interval '0' ELSE '1 hour' END,
			        'first_option', now() + CASE WHEN $1 = 'due' THEN interval '0' ELSE '1 hour' END)`,
			id,
			d.id,
			call,
		)
	}

	for _, want := range []int64{1, 0} {
		escalated, err := d.store.EscalateQuestions(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, want, escalated, "each once")
	}

	_, total, err := webhooks.NewStore(d.store.DB).WebhookDeliveries(t.Context(), d.owner, hook.ID, "", "", 0, 1)
	require.NoError(t, err)
	require.Equal(t, 1, total)

	expired, err := d.store.ExpiredQuestions(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, expired, 1)
	require.Equal(t, []string{"due", d.owner, string(domain.PolicyFirstOption)},
		[]string{expired[0].ID, expired[0].OwnerID, string(*expired[0].DefaultPolicy)})
	d.set(`UPDATE questions SET state = 'answered' WHERE id = 'due'`)
	expired, err = d.store.ExpiredQuestions(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, expired, "an answer came first")

	found, err := d.store.InboxQuestion(t.Context(), d.owner, "due")
	require.NoError(t, err)
	require.Equal(t, domain.InboxQuestion{SessionID: d.id, OwnerID: d.owner, ToolCallID: "asks"}, found)
	_, err = d.store.InboxQuestion(t.Context(), "another user", "due")
	require.True(t, domain.HasCode(err, "question_not_found"))
}

// A question that is escalated to another user is theirs to answer for as long as they may
// act in a workspace of its owner.
func TestBase_EscalateQuestions_toAnotherUser(t *testing.T) {
	t.Parallel()
	d := newDecisions(t)
	ctx := t.Context()
	id := domain.NewID()
	ben, _, err := accounts.New(d.store.DB).CreateUser(ctx, domain.User{ID: id, Username: "ben"},
		domain.APIKey{ID: domain.NewID(), UserID: id, Name: "k", Masked: "m"}, make([]byte, 32))
	require.NoError(t, err)

	hook := func() string {
		made, err := webhooks.NewStore(d.store.DB).CreateWebhook(ctx, d.owner, domain.NewID(), webhook.Spec{
			URL: "https://hooks.example.org/", Events: []webhook.Event{}, Enabled: true,
		}, []byte("sealed"))
		require.NoError(t, err)

		return made.ID
	}
	named, other := hook(), hook()

	d.set(`UPDATE sessions SET status = 'waiting_for_input', setup = setup || jsonb_build_object('escalation', jsonb_build_object(
		'user_id', $2::text, 'webhooks', jsonb_build_array($3::text), 'default_answer', 'Reject')) WHERE id = $1`, d.id, ben.ID, named)
	d.set(
		`INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, expires_at, default_policy, escalate_at)
		VALUES ('q', $1, 'chat', 'turn of root', 'asks', 'root', '[{"question":"Which?"}]', now(), 'answer', now())`,
		d.id,
	)

	workspace, err := boards.NewStore(d.store.DB).
		CreateWorkspace(ctx, d.owner, board.NewWorkspace{Name: "W", Settings: board.DefaultWorkspaceSettings})
	require.NoError(t, err)

	join := func(role board.WorkspaceRole) {
		pgtest.Join(t, boards.NewStore(d.store.DB), d.owner, workspace.ID, ben.ID, role)
	}
	join(board.WorkspaceMember)

	sees := func(want bool) {
		t.Helper()

		page, total, err := d.store.OpenQuestions(ctx, ben.ID, 0, 10)
		require.NoError(t, err)

		found, err := d.store.InboxQuestion(ctx, ben.ID, "q")

		if !want {
			require.Zero(t, total)
			require.True(t, domain.HasCode(err, "question_not_found"))

			return
		}

		require.NoError(t, err)
		require.Equal(t, domain.InboxQuestion{SessionID: d.id, OwnerID: d.owner, ToolCallID: "asks"}, found)
		require.Equal(t, 1, total)
		require.True(t, page[0].Escalated)
		require.Equal(t, "q", page[0].QuestionID)
	}
	sees(false)

	escalated, err := d.store.EscalateQuestions(ctx, 10)
	require.NoError(t, err)
	require.EqualValues(t, 1, escalated)
	sees(true)

	own, total, err := d.store.OpenQuestions(ctx, d.owner, 0, 10)
	require.NoError(t, err)
	require.Equal(t, 1, total)
	require.False(t, own[0].Escalated)

	for id, want := range map[string]int{named: 1, other: 0} {
		_, total, err := webhooks.NewStore(d.store.DB).WebhookDeliveries(ctx, d.owner, id, "", "", 0, 1)
		require.NoError(t, err)
		require.Equal(t, want, total)
	}

	expired, err := d.store.ExpiredQuestions(ctx, "", 10)
	require.NoError(t, err)
	require.Equal(t, "Reject", expired[0].DefaultAnswer)

	join(board.WorkspaceViewer)
	sees(false)
	join(board.WorkspaceAdmin)
	sees(true)
	require.NoError(t, boards.NewStore(d.store.DB).RemoveMember(ctx, d.owner, workspace.ID, ben.ID))
	sees(false)
}

// An item of the inbox names what its session works for.
func TestBase_OpenQuestions_namesTheWork(t *testing.T) {
	t.Parallel()
	d := newDecisions(t)
	d.set(`UPDATE sessions SET status = 'waiting_for_input' WHERE id = $1`, d.id)
	d.set(
		`INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions)
		VALUES ('q', $1, 'chat', 'turn of root', 'asks', 'root', '[{"question":"Which?"}]')`, d.id)
	d.set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, d.owner)
	d.set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('dr', 'p', $1, 1, 'api', 'running', '{}')`, d.owner)
	d.set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, chat_id)
		VALUES ('n', 'dr', 'p', 'gate', 'running', 'chat')`)

	workspace, err := boards.NewStore(d.store.DB).
		CreateWorkspace(t.Context(), d.owner, board.NewWorkspace{Name: "W", Settings: board.DefaultWorkspaceSettings})
	require.NoError(t, err)
	d.set(`INSERT INTO issues (id, workspace_id, number, title, status, priority, creator_id, position, changed_by)
		VALUES ('i', $1, 1, 't', 'todo', 'none', $2, 1, $2)`, workspace.ID, d.owner)
	d.set(`INSERT INTO issue_runs (id, issue_id, agent_id, runtime_id, status, trigger_kind, trigger_summary, attempt, max_attempts)
		VALUES ('ir', 'i', 'a', 'builtin', 'running', 'assign', '', 1, 1)`)

	text := func(value *string) string {
		if value == nil {
			return ""
		}

		return *value
	}

	for trigger, want := range map[string][]string{ // waiter, and run, solution, node, workspace, issue
		"user":  {"", "", "", "", "", ""},
		"dag":   {"dag/p/dr", "dr", "p", "gate", "", ""},
		"issue": {"issue-run/ir", "ir", "", "", workspace.ID, "i"},
	} {
		d.set(`UPDATE chats SET trigger = $1, waiter = nullif($2, '') WHERE id = 'chat'`, trigger, want[0])
		page, total, err := d.store.OpenQuestions(t.Context(), d.owner, 0, 10)
		require.NoError(t, err)
		require.Equal(t, 1, total)

		i := page[0]
		require.Equal(t, want[1:], []string{
			text(i.RunID), text(i.ProdSolutionID), text(i.NodeID), text(i.WorkspaceID), text(i.IssueID),
		}, trigger)
	}
}
