package systemtest

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/infra/objects"
	"everloop/infra/snapshots"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/internal/testkit"
	"everloop/service/chat"
	"everloop/service/files"
	"everloop/service/history"
	"everloop/service/work"
)

// standing lets a restore stand until it is broken off, for as long as it is on.
type standing struct {
	history.Files
	on      atomic.Bool
	started chan struct{}
}

func (f *standing) Restore(ctx context.Context, in history.RestoreIn) (domainhistory.RestoredFiles, error) {
	if f.on.Load() {
		f.started <- struct{}{}

		<-ctx.Done()

		return domainhistory.RestoredFiles{}, ctx.Err()
	}

	return f.Files.Restore(ctx, in)
}

// past is a stack with the history of its sessions. All share one workspace.
type past struct {
	*stack
	moves *history.Service
	files *standing
	dir   string
}

func newPast(t *testing.T) *past {
	t.Helper()
	s := newStack(t)
	bucket := testkit.Objects(t)
	store, err := objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)
	p := &past{stack: s, dir: t.TempDir()}
	kept := snapshots.New(snapshots.Config{Objects: store, SpoolDir: t.TempDir(), Logger: s.logger})
	p.files = &standing{Files: files.Checkpoints{Store: kept, Roots: plainWorkspaces{p.dir}}, started: make(chan struct{}, 100)}
	p.moves, err = history.New(history.Config{
		Store:   s.history(),
		Files:   p.files,
		Runs:    temporal.Runs{Client: s.client, Queue: s.queue},
		Process: domain.NewID(),
		Logger:  s.logger,
	})
	require.NoError(t, err)
	t.Cleanup(func() { p.moves.Drain(context.Background()) })
	s.configure(func(cfg *chat.Config) { cfg.History = p.moves })
	p.register()

	return p
}

func (p *past) register() { p.moves.Register(p.worker) }

func (p *past) write(content string) {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, "a.txt"), []byte(content), 0o644))
}

func (p *past) read() string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "a.txt"))
	require.NoError(p.t, err)

	return string(data)
}

// talked makes a session of two chats, with other files before each, and gives
// the checkpoint before the second.
func (p *past) talked() (session domain.SessionID, point domain.CheckpointID) {
	p.t.Helper()

	session = p.session()
	for _, content := range []string{"one", "two"} {
		p.write(content)
		ack := p.send(session, content+script(obj{"steps": []obj{{"text": "done"}}}))
		require.Equal(p.t, "completed", p.awaitEnd(session, ack.ChatID)["status"])
		require.NoError(p.t, p.moves.Flush(p.t.Context(), session))
	}

	p.write("three")
	list, err := p.moves.Checkpoints(p.t.Context(), session)
	require.NoError(p.t, err)
	require.Len(p.t, list, 2)

	return session, list[1].ID
}

// runID returns the workflow id of the newest operation of a session.
func (p *past) runID(session domain.SessionID) string {
	p.t.Helper()

	var id string
	require.NoError(p.t, p.journal.Pool.QueryRow(p.t.Context(), `
		SELECT id FROM history_operations WHERE session_id = $1 ORDER BY id DESC LIMIT 1`, session).Scan(&id))

	return durable.HistoryWorkflowID(string(session), id)
}

func TestHistoryOperations_areWorkflows(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	session, point := p.talked()

	moved, err := p.moves.Rewind(t.Context(), p.caller.User, session, point)
	require.NoError(t, err)
	require.Equal(t, "two", p.read())
	p.replayRun("history_rewind", p.runID(session))
	described, err := p.client.DescribeWorkflowExecution(t.Context(), p.runID(session), "")
	require.NoError(t, err)

	info := described.GetWorkflowExecutionInfo()
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, info.GetStatus())

	for name, want := range map[string]string{"Kind": `"history"`, "SessionId": `"` + string(session) + `"`, "OwnerId": `"` + p.caller.User.ID + `"`} {
		require.Equal(t, want, string(info.GetSearchAttributes().GetIndexedFields()[name].GetData()), name)
	}

	_, err = p.moves.SwitchBranch(t.Context(), p.caller.User, session, moved.PreRewindID)
	require.NoError(t, err)
	require.Equal(t, "three", p.read())
	p.replayRun("history_switch_branch", p.runID(session))

	ack, err := p.stack.chats.Send(t.Context(), p.caller, domain.Send{
		SessionID: session, Trigger: domain.TriggerWhatif, Whatif: &domain.Whatif{FromStep: 1},
		Message: []domain.ContentPart{{Type: "text", Text: script(obj{"steps": []obj{{"text": "what if"}}})}},
	})
	require.NoError(t, err)
	require.Equal(t, "completed", p.awaitEnd(session, ack.ChatID)["status"])
	require.Equal(t, "one", p.read(), "as after the first step")
	p.replayRun("history_whatif", p.runID(session))
	p.checkEvents(session)
}

func TestHistoryOperation_workerThatDied(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	session, point := p.talked()
	p.files.on.Store(true)

	over := make(chan error, 1)

	go func() {
		_, err := p.moves.Rewind(t.Context(), p.caller.User, session, point)
		over <- err
	}()

	<-p.files.started
	p.worker.Stop()
	require.Equal(t, "three", p.read())
	p.files.on.Store(false)
	p.startWorker()
	p.register()
	require.NoError(t, <-over, "another worker finishes it, and the caller gets the result")
	require.Equal(t, "two", p.read())
	p.replayRun("history_worker_died", p.runID(session))
}

func TestHistoryOperation_cancelledByAnOperator(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	session, point := p.talked()
	p.files.on.Store(true)

	over := make(chan error, 1)

	go func() {
		_, err := p.moves.Rewind(t.Context(), p.caller.User, session, point)
		over <- err
	}()

	<-p.files.started
	p.files.on.Store(false)
	require.NoError(t, temporal.Operator{Client: p.client, Chats: p.stack.chats}.Cancel(t.Context(), p.runID(session)))

	err := <-over
	require.True(t, domain.HasCode(err, "history_not_changed"), "%v", err)
	require.Equal(t, "three", p.read())
	p.replayRun("history_cancelled", p.runID(session))
	require.Equal(t, "completed", p.talk(session, "next"+script(obj{"steps": []obj{{"text": "on"}}}))["status"], "the session goes on")
}

// A workflow whose start was lost, or that was terminated, is started again.
func TestWorkChecker_Moves_startsThemAgain(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	session, point := p.talked()
	p.files.on.Store(true)

	over := make(chan error, 1)

	go func() {
		_, err := p.moves.Rewind(t.Context(), p.caller.User, session, point)
		over <- err
	}()

	<-p.files.started
	p.files.on.Store(false)
	id := p.runID(session)
	require.NoError(t, p.client.TerminateWorkflow(t.Context(), id, "", "as if its start had been lost"))
	_, err := p.journal.Pool.Exec(t.Context(), `UPDATE history_operations SET created_at = now() - interval '1 minute'
		WHERE session_id = $1`, session)
	require.NoError(t, err)
	require.NoError(t, p.check(1, work.Moves(p.runs, p.moves.Abort))(t.Context()))
	require.NoError(t, <-over)
	require.Equal(t, "two", p.read())
}
