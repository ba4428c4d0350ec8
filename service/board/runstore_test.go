package board

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/prodagent"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/service/agents"
)

// runFixture is a workspace of ann's with an agent instance that works on one issue at once.
type runFixture struct {
	t         *testing.T
	db        *postgres.DB
	store     *Store
	ann       domain.User
	workspace string
	agent     string
}

func newRunFixture(t *testing.T) *runFixture {
	t.Helper()
	db := pgtest.Open(t)
	d := &runFixture{t: t, db: db, store: NewStore(db.DB), ann: pgtest.User(t, db, "ann", false), agent: domain.NewID()}
	made, err := d.store.CreateWorkspace(t.Context(), d.ann.ID, board.NewWorkspace{Name: "Web", Settings: board.DefaultWorkspaceSettings})
	require.NoError(t, err)

	d.workspace = made.ID
	_, err = agents.NewStore(db.DB).CreateAgentInstance(t.Context(), prodagent.Instance{
		ID:                 d.agent,
		OwnerID:            d.ann.ID,
		Name:               "Builder",
		RuntimeID:          prodagent.BuiltinRuntime,
		MaxConcurrentTasks: 1,
		Visibility:         prodagent.VisibilityWorkspace,
	})
	require.NoError(t, err)

	return d
}

func (d *runFixture) issue() board.Issue {
	d.t.Helper()

	title := "t"
	made, plan, err := d.store.CreateIssue(d.t.Context(), d.ann.ID, d.workspace, board.IssueFields{
		Title: &title, Assignee: &board.AssigneeRef{Type: board.ActorAgent, ID: d.agent}, HandoffNote: "careful",
	})
	require.NoError(d.t, err)
	require.Equal(d.t, []string{d.agent}, plan.Agents)

	return made
}

func (d *runFixture) dispatch() []string {
	d.t.Helper()
	started, err := d.store.DispatchRuns(d.t.Context(), d.agent)
	require.NoError(d.t, err)

	return started
}

// begin sends the message of a run: its chat runs in a session of ann's.
func (d *runFixture) begin(runID string) (claimed board.ClaimedIssueRun, chat domain.ChatID) {
	d.t.Helper()
	ctx := d.t.Context()
	claimed, _, err := d.store.ClaimIssueRun(ctx, runID)
	require.NoError(d.t, err)
	require.False(d.t, claimed.Ended)
	require.NoError(d.t, d.db.EnsureSession(ctx, d.ann.ID, domain.NewSession{ID: claimed.SessionID, WorkspaceID: &d.workspace}))

	chat = domain.ChatID(domain.NewID())
	_, err = d.db.Pool.Exec(ctx, `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, input_tokens, output_tokens)
		SELECT $1, id, active_branch_id, 'issue', 'executing', 'running', 10, 3 FROM sessions WHERE id = $2`, chat, claimed.SessionID)
	require.NoError(d.t, err)
	_, err = d.store.IssueRunBegan(ctx, runID, chat)
	require.NoError(d.t, err)

	return claimed, chat
}

func (d *runFixture) ends(chat domain.ChatID, reason string) {
	d.t.Helper()
	_, err := d.db.Pool.Exec(d.t.Context(), `UPDATE chats SET state = 'ended', finish_reason = $2, error_message = 'broken'
		WHERE id = $1`, chat, reason)
	require.NoError(d.t, err)
	_, err = d.db.Pool.Exec(d.t.Context(), `
		INSERT INTO session_usage AS u (session_id, owner_id, day, model, priced, calls, input_tokens, output_tokens,
		                                cache_read_tokens, cache_write_tokens, cost_nano)
		SELECT s.id, s.owner_id, now(), 'm', true, 1, c.input_tokens, c.output_tokens, 1, 0, 500
		FROM   chats c JOIN sessions s ON s.id = c.session_id WHERE c.id = $1
		ON     CONFLICT (session_id, day, model, priced) DO UPDATE
		SET    input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
		       cache_read_tokens = u.cache_read_tokens + 1, cost_nano = u.cost_nano + 500`, chat)
	require.NoError(d.t, err)
}

func (d *runFixture) end(runID string) (ended, again bool, plan board.IssueRunPlan) {
	d.t.Helper()
	ended, again, plan, err := d.store.EndIssueRun(d.t.Context(), runID)
	require.NoError(d.t, err)

	return ended, again, plan
}

func (d *runFixture) now(id string) board.Issue {
	d.t.Helper()
	found, err := d.store.Issue(d.t.Context(), d.ann.ID, d.workspace, id)
	require.NoError(d.t, err)

	return found
}

func TestStore_issueRun(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	first, second := d.issue(), d.issue()
	require.Equal(t, []string{first.ActiveRun.ID}, d.dispatch())
	require.Empty(t, d.dispatch(), "the agent works on one issue at once")

	claimed, chat := d.begin(first.ActiveRun.ID)
	require.Contains(t, claimed.Message, "careful")
	require.Equal(t, board.IssueInProgress, d.now(first.ID).Status)
	ended, _, _ := d.end(first.ActiveRun.ID)
	require.False(t, ended, "its chat runs")

	// A comment while it works is another message of the same run.
	_, plan, err := d.store.AddComment(t.Context(), d.ann.ID, d.workspace, first.ID, board.NewComment{Content: "and blue"})
	require.NoError(t, err)
	require.Equal(t, []string{first.ActiveRun.ID}, plan.Answer)
	d.ends(chat, "completed")
	ended, again, _ := d.end(first.ActiveRun.ID)
	require.Equal(t, []bool{false, true}, []bool{ended, again})

	claimed, chat = d.begin(first.ActiveRun.ID)
	require.Contains(t, claimed.Message, "and blue")
	require.Equal(t, 2, claimed.Round)
	d.ends(chat, "completed")
	ended, again, plan = d.end(first.ActiveRun.ID)
	require.Equal(t, []bool{true, false}, []bool{ended, again})
	require.Equal(t, []string{d.agent}, plan.Agents)
	require.Equal(t, board.IssueInReview, d.now(first.ID).Status)
	require.Equal(t, []string{second.ActiveRun.ID}, d.dispatch())

	usage, err := d.store.IssueUsage(t.Context(), d.ann.ID, d.workspace, first.ID)
	require.NoError(t, err)
	require.Equal(t, board.TokenCounts{InputTokens: 20, OutputTokens: 6, CacheReadTokens: 2}, usage.TokenCounts)
	require.Equal(t, domain.Cost(1000), usage.Cost)
	require.Zero(t, usage.Uncosted, "all tokens have a price")
	require.Equal(t, []board.ModelUsage{{Model: "m", TokenCounts: usage.TokenCounts}}, usage.ByModel)
	require.Equal(t, []board.AgentUsage{{AgentID: d.agent, RunCount: 1, TokenCounts: usage.TokenCounts}}, usage.ByAgent)
	runs, _, err := d.store.IssueRuns(t.Context(), d.ann.ID, d.workspace, first.ID, 10, 0)
	require.NoError(t, err)
	require.Len(t, runs[0].CoalescedCommentIDs, 1)
}

// A run that used several models has a row for each. What is in no turn counts for the
// model of its last answer.
func TestStore_IssueRuns_usageByModel(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	issue := d.issue()
	d.dispatch()
	claimed, chat := d.begin(issue.ActiveRun.ID)
	set := func(sql string, args ...any) {
		_, err := d.db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}

	turn := func(model string, sequence, input, output, cost int) {
		set(`
			INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, model, input_tokens, output_tokens, cost_nano)
			SELECT $1, s.id, s.active_branch_id, $4, $3, 'assistant', 'completed', $5, $6, $7, $8 FROM sessions s WHERE s.id = $2`,
			domain.NewID(), claimed.SessionID, chat, sequence, model, input, output, cost)
	}
	used := func() []board.RunUsage {
		t.Helper()

		runs, _, err := d.store.IssueRuns(t.Context(), d.ann.ID, d.workspace, issue.ID, 10, 0)
		require.NoError(t, err)

		return runs[0].Usage
	}

	set(`UPDATE chats SET waiter = 'issue-run/' || $2, input_tokens = 130, output_tokens = 13, cost_nano = 900 WHERE id = $1`,
		chat, issue.ActiveRun.ID)
	turn("small", 101, 20, 2, 0)
	turn("large", 102, 60, 6, 500)
	turn("small", 103, 10, 1, 0)
	turn("large", 104, 30, 3, 300)

	expected := []board.RunUsage{
		{Provider: "gateway", Model: "large", InputTokens: 100, OutputTokens: 10, Cost: 900},
		{Provider: "gateway", Model: "small", InputTokens: 30, OutputTokens: 3},
	}
	require.Equal(t, int64(90), used()[0].InputTokens, "of its turns: it has no last answer yet")

	d.ends(chat, "completed")
	ended, _, _ := d.end(issue.ActiveRun.ID)
	require.True(t, ended)
	require.Equal(t, expected, used())

	set(`UPDATE chats SET waiter = NULL WHERE id = $1`, chat) // as if its session was gone
	require.Equal(t, []board.RunUsage{{Provider: "gateway", Model: "large", InputTokens: 130, OutputTokens: 13, Cost: 900}}, used())
}

func TestStore_issueRun_isRetriedAndThenBlocked(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	issue := d.issue()
	d.dispatch()
	before, chat := d.begin(issue.ActiveRun.ID)
	d.ends(chat, "failed")
	d.end(issue.ActiveRun.ID)

	now := d.now(issue.ID)
	require.Equal(t, board.IssueInProgress, now.Status)
	require.NotEqual(t, issue.ActiveRun.ID, now.ActiveRun.ID)
	d.dispatch()
	after, chat := d.begin(now.ActiveRun.ID)
	require.Equal(t, before.SessionID, after.SessionID)
	require.Contains(t, after.Message, "The attempt before failed: broken")
	d.ends(chat, "failed")
	d.end(now.ActiveRun.ID)
	now = d.now(issue.ID)
	require.Equal(t, board.IssueBlocked, now.Status)
	require.Nil(t, now.ActiveRun)
}

func TestStore_issueRun_ofAnAgentThatIsGone(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	issue := d.issue()
	require.NoError(t, agents.NewStore(d.db.DB).DeleteAgentInstance(t.Context(), d.ann.ID, d.agent))
	d.dispatch()
	claimed, _, err := d.store.ClaimIssueRun(t.Context(), issue.ActiveRun.ID)
	require.NoError(t, err)
	require.True(t, claimed.Ended)
	require.Equal(t, board.IssueBlocked, d.now(issue.ID).Status)
}

func TestStore_issueRun_isCancelled(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	working, waiting := d.issue(), d.issue()
	d.dispatch()
	claimed, chat := d.begin(working.ActiveRun.ID)
	none := &board.AssigneeRef{}
	_, plan, err := d.store.ChangeIssue(t.Context(), d.ann.ID, d.workspace, working.ID, board.IssueFields{Assignee: none})
	require.NoError(t, err)

	want := []domain.RunChat{{OwnerID: d.ann.ID, SessionID: claimed.SessionID, ChatID: chat}}
	require.Equal(t, want, plan.Stop)

	repeated, err := d.store.CancelledIssueRuns(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, repeated)

	_, err = d.store.CancelIssueRun(t.Context(), d.ann.ID, d.workspace, waiting.ID, waiting.ActiveRun.ID)
	require.NoError(t, err)
	d.ends(chat, "interrupted")
	d.end(working.ActiveRun.ID)

	for _, i := range []board.Issue{working, waiting} {
		runs, _, err := d.store.IssueRuns(t.Context(), d.ann.ID, d.workspace, i.ID, 10, 0)
		require.NoError(t, err)
		require.Equal(t, board.IssueRunCancelled, runs[0].Status)
	}

	require.Empty(t, d.dispatch())
}

// A run was cancelled between the send of its message and the record of its chat.
func TestStore_issueRun_isCancelledAfterSend(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	d.issue()
	run := d.dispatch()[0]

	claimed, _, err := d.store.ClaimIssueRun(t.Context(), run)
	require.NoError(t, err)
	require.NoError(t, d.db.EnsureSession(t.Context(), claimed.OwnerID, domain.NewSession{ID: claimed.SessionID}))

	send := domain.Send{
		SessionID: claimed.SessionID, ClientMessageID: board.MessageID(run, claimed.Round), Waiter: "issue-run/" + run,
		Message: []domain.ContentPart{{Type: "text", Text: "work"}}, Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerIssue,
	}
	sent, err := pgtest.Send(t, d.db, claimed.OwnerID, send)
	require.NoError(t, err)

	_, err = d.db.Pool.Exec(t.Context(), `UPDATE issue_runs SET cancel_requested = true WHERE id = $1`, run)
	require.NoError(t, err)

	again, plan, err := d.store.ClaimIssueRun(t.Context(), run)
	require.NoError(t, err)
	require.False(t, again.Ended)
	require.True(t, again.Begun)
	require.Equal(t, []domain.RunChat{{OwnerID: claimed.OwnerID, SessionID: claimed.SessionID, ChatID: sent.Ack.ChatID}}, plan.Stop)
}

func TestStore_DeleteWorkspace_stopsItsRuns(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	issue := d.issue()
	d.dispatch()
	claimed, chat := d.begin(issue.ActiveRun.ID)
	plan, err := d.store.DeleteWorkspace(t.Context(), d.ann.ID, d.workspace)
	require.NoError(t, err)
	require.Equal(t, []domain.RunChat{{OwnerID: d.ann.ID, SessionID: claimed.SessionID, ChatID: chat}}, plan.Stop)
}

func TestStore_ClaimIssueRun_namesTheSquad(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	ctx := t.Context()
	ben := pgtest.User(t, d.db, "ben", false)
	pgtest.Join(t, d.store, d.ann.ID, d.workspace, ben.ID, board.WorkspaceMember)
	squad, err := d.store.CreateSquad(ctx, d.ann.ID, d.workspace, board.Squad{
		Name: "Reviewers", LeaderID: d.agent, Instructions: "Look twice.", Members: []board.SquadMember{
			{MemberType: board.ActorMember, MemberID: ben.ID, Role: "tester"}, {MemberType: board.ActorAgent, MemberID: d.agent},
		},
	})
	require.NoError(t, err)

	title := "t"
	_, _, err = d.store.CreateIssue(ctx, d.ann.ID, d.workspace, board.IssueFields{
		Title: &title, Assignee: &board.AssigneeRef{Type: board.ActorSquad, ID: squad.ID},
	})
	require.NoError(t, err)

	claimed, _, err := d.store.ClaimIssueRun(ctx, d.dispatch()[0])
	require.NoError(t, err)
	require.Contains(t, claimed.Message,
		"You lead the squad \"Reviewers\".\n\nLook twice.\n\nIn the squad are:\n- ben (member): tester\n\nEnd with")
}

// The session of an issue run takes messages of its owner too. What their chat asks is
// theirs, and is no comment of the issue.
func TestStore_AskedInRuns_ofTheRunsChatOnly(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	issue := d.issue()
	d.dispatch()
	claimed, chat := d.begin(issue.ActiveRun.ID)
	own := d.chat(claimed.SessionID, domain.TriggerUser, "queued")
	d.asks(own, "private", "root")
	d.asks(chat, "root", "root")
	d.asks(chat, "sub-agent", "loop_1")

	asked, err := d.store.AskedInRuns(t.Context(), issue.ActiveRun.ID, "", 10)
	require.NoError(t, err)

	var of []string
	for _, q := range asked {
		of = append(of, q.ToolCallID)
	}

	require.ElementsMatch(t, []string{"root", "sub-agent"}, of)
}

// later gives a comment the id of a process whose clock is ahead.
func (d *runFixture) later(comment string) {
	d.t.Helper()

	_, err := d.db.Pool.Exec(d.t.Context(), `UPDATE issue_comments SET id = 'f' || id WHERE id = $1`, comment)
	require.NoError(d.t, err)
}

// A comment is taken up whichever clocks the ids of the comments come from.
func TestStore_EndIssueRun_commentsOfClocksThatDiffer(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	issue := d.issue()
	d.dispatch()

	comment := func(text string) string {
		made, _, err := d.store.AddComment(t.Context(), d.ann.ID, d.workspace, issue.ID, board.NewComment{Content: text})
		require.NoError(t, err)

		return made.ID
	}

	d.later(comment("before the run"))
	claimed, chat := d.begin(issue.ActiveRun.ID)
	require.Contains(t, claimed.Message, "before the run")
	comment("while it works")
	d.ends(chat, "completed")
	_, again, _ := d.end(issue.ActiveRun.ID)
	require.True(t, again, "the comment is not lost")

	claimed, chat = d.begin(issue.ActiveRun.ID)
	require.Contains(t, claimed.Message, "while it works")
	require.NotContains(t, claimed.Message, "before the run")

	d.asks(chat, "asked", "root")
	asked, err := d.store.AskedInRuns(t.Context(), issue.ActiveRun.ID, "", 10)
	require.NoError(t, err)
	require.Len(t, asked, 1)
	require.NoError(t, d.store.PostQuestion(t.Context(), issue.ActiveRun.ID, asked[0].QuestionID, "Which?"))

	comments, _, err := d.store.Comments(t.Context(), d.ann.ID, d.workspace, issue.ID, 10, 0)
	require.NoError(t, err)

	for _, one := range comments {
		if one.Content == "Which?" {
			d.later(one.ID)
		}
	}

	answer := comment("this one")
	asked, err = d.store.AskedInRuns(t.Context(), issue.ActiveRun.ID, "", 10)
	require.NoError(t, err)
	require.Equal(t, answer, asked[0].CommentID)
}

func TestStore_CreateIssue_limitHoldsInParallel(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	_, err := d.db.Pool.Exec(t.Context(), `
		INSERT INTO issues (id, workspace_id, number, title, status, priority, creator_id, position, changed_by)
		SELECT 'i' || n, $1, -n, 't', 'todo', 'none', $2, n, $2 FROM generate_series(1, $3) n`, d.workspace, d.ann.ID, board.MaxIssues-1)
	require.NoError(t, err)

	var (
		made  atomic.Int32
		group sync.WaitGroup
	)
	for range 8 {
		group.Go(func() {
			title := "t"
			if _, _, err := d.store.CreateIssue(t.Context(), d.ann.ID, d.workspace, board.IssueFields{Title: &title}); err == nil {
				made.Add(1)
			}
		})
	}

	group.Wait()
	require.EqualValues(t, 1, made.Load())
}

// chat makes a chat in a session of ann's.
func (d *runFixture) chat(session domain.SessionID, trigger domain.Trigger, state string) domain.ChatID {
	d.t.Helper()

	id := domain.ChatID(domain.NewID())
	_, err := d.db.Pool.Exec(d.t.Context(), `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
		SELECT $1, id, active_branch_id, $3, 'executing', $4 FROM sessions WHERE id = $2`, id, session, trigger, state)
	require.NoError(d.t, err)

	return id
}

// asks opens a question of a loop of a chat.
func (d *runFixture) asks(chat domain.ChatID, call, loop string) {
	d.t.Helper()

	for _, sql := range []string{
		`INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status)
		SELECT $2, session_id, branch_id, (SELECT count(*) FROM entries) + 1, id, 'assistant', 'completed' FROM chats
		WHERE  id = $1 AND $3 <> ''`,
		`INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase)
		SELECT $2, session_id, id, $2, 0, 'AskUserQuestion', 'Question', '{}', 'awaiting_answer', 'running' FROM chats
		WHERE  id = $1 AND $3 <> ''`,
		`INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions)
		SELECT $2, session_id, id, $2, $2, $3, '[{"question":"?"}]' FROM chats WHERE id = $1`,
	} {
		_, err := d.db.Pool.Exec(d.t.Context(), sql, chat, call, loop)
		require.NoError(d.t, err)
	}
}
