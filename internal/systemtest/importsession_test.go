package systemtest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"everloop/domain"
	domaintransfer "everloop/domain/transfer"
	"everloop/infra/objects"
	"everloop/infra/snapshots"
	"everloop/infra/temporal"
	"everloop/infra/workspace"
	"everloop/internal/durable"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	"everloop/service/files"
	"everloop/service/memories"
	"everloop/service/recordings"
	"everloop/service/recordings/transfer"
	"everloop/service/work"
)

// slowFiles let the first file of an import stand until it is broken off, for as long
// as on is set.
type slowFiles struct {
	recordings.Files
	on      atomic.Bool
	started chan struct{}
}

func (f *slowFiles) Put(ctx context.Context, s domain.Session, file domain.CarriedFile, content io.Reader) error {
	if f.on.Load() {
		f.started <- struct{}{}

		<-ctx.Done()

		return context.Cause(ctx)
	}

	return f.Files.Put(ctx, s, file, content)
}

// abroad is a stack that exports and imports sessions.
type abroad struct {
	*stack
	transfers *transfer.Service
	files     *slowFiles
	objects   *objects.Store
	dir       string
}

func newAbroad(t *testing.T) *abroad {
	t.Helper()
	return newAbroadOn(t, func(store *objects.Store) recordings.Objects { return store })
}

// newAbroadOn is newAbroad with something before the object store.
func newAbroadOn(t *testing.T, before func(*objects.Store) recordings.Objects) *abroad {
	t.Helper()
	a := &abroad{stack: newStack(t), dir: t.TempDir()}
	bucket := testkit.Objects(t)

	var err error

	a.objects, err = objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)

	logger, runs := a.stack.logger, temporal.Runs{Client: a.client, Queue: a.queue}
	a.files = &slowFiles{started: make(chan struct{}, 100), Files: files.Carrier{
		Workspaces: workspace.New(filepath.Join(a.dir, "workspace")),
		Snapshots:  snapshots.New(snapshots.Config{Objects: a.objects, SpoolDir: filepath.Join(a.dir, "spool"), Logger: logger}),
	}}
	archive, err := recordings.New(a.recorded(a.log, a.objects, a.files, runs))
	require.NoError(t, err)
	a.transfers, err = transfer.New(transfer.Config{
		Deps: a.recorded(a.log, before(a.objects), a.files, runs), Archive: archive,
		Known: func(context.Context, string, string) bool { return true }, Roles: accounts.New(a.journal.DB).AllowedRoles,
		Memories: memories.New(a.journal.DB).SessionMemories, Version: "1", Spool: filepath.Join(a.dir, "spool"),
	})
	require.NoError(t, err)
	a.register()

	return a
}

func (a *abroad) register() { a.transfers.Register(a.worker) }

// exported returns the archive of a session of one chat and one file.
func (a *abroad) exported() []byte {
	a.t.Helper()
	id := a.session()
	ack := a.send(id, "hello"+script(obj{"steps": []obj{{"text": "done"}}}))
	require.Equal(a.t, "completed", a.awaitEnd(id, ack.ChatID)["status"])
	session, err := a.journal.OwnSession(a.t.Context(), a.caller.User, id)
	require.NoError(a.t, err)

	content := bytes.NewReader([]byte("a file"))
	require.NoError(a.t, a.files.Files.Put(a.t.Context(), session, domain.CarriedFile{Path: "a.txt", Mode: 0o644, Size: 6}, content))
	x, err := a.transfers.Export(a.t.Context(), session.OwnerID, session, domaintransfer.ExportParts{Private: true, Files: true})
	require.NoError(a.t, err)

	defer x.Close()

	var out bytes.Buffer
	require.NoError(a.t, x.Write(a.t.Context(), &out))

	return out.Bytes()
}

type imported struct {
	id  domain.SessionID
	err error
}

// load imports an archive, in a goroutine.
func (a *abroad) load(archive []byte) (id domain.SessionID, over chan imported) {
	a.t.Helper()
	up, err := a.transfers.Upload(a.t.Context(), a.caller.User.ID, bytes.NewReader(archive))
	require.NoError(a.t, err)

	over = make(chan imported, 1)

	go func() {
		id, _, err := a.transfers.Import(a.t.Context(), domaintransfer.ImportRequest{OwnerID: a.caller.User.ID, Upload: up})
		over <- imported{id, err}
	}()

	return up.SessionID, over
}

// traces counts what an import could leave behind.
func (a *abroad) traces() []string {
	a.t.Helper()
	left, err := a.objects.Keys(a.t.Context(), "")
	require.NoError(a.t, err)

	for _, dir := range []string{"workspace", "spool"} {
		list, err := os.ReadDir(filepath.Join(a.dir, dir))
		require.NoError(a.t, err)

		for _, e := range list {
			left = append(left, dir+"/"+e.Name())
		}
	}

	var sessions int
	require.NoError(a.t, a.journal.Pool.QueryRow(a.t.Context(), `SELECT count(*) FROM sessions`).Scan(&sessions))

	for range sessions {
		left = append(left, "session")
	}

	return left
}

func TestImport_isAWorkflow(t *testing.T) {
	t.Parallel()
	a := newAbroad(t)
	data := a.exported()
	id, over := a.load(data)
	got := <-over
	require.NoError(t, got.err)
	require.Equal(t, id, got.id)
	a.replayRun("import", durable.ImportWorkflowID(string(id)))
	described, err := a.client.DescribeWorkflowExecution(t.Context(), durable.ImportWorkflowID(string(id)), "")
	require.NoError(t, err)

	info := described.GetWorkflowExecutionInfo()
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, info.GetStatus())

	for name, want := range map[string]string{"Kind": `"import"`, "SessionId": `"` + string(id) + `"`, "OwnerId": `"` + a.caller.User.ID + `"`} {
		require.Equal(t, want, string(info.GetSearchAttributes().GetIndexedFields()[name].GetData()), name)
	}

	_, err = a.journal.OwnSession(t.Context(), a.caller.User, id)
	require.NoError(t, err)

	before := a.traces()
	id, over = a.load(data[:len(data)/2])
	require.True(t, domain.HasCode((<-over).err, "not_a_zip"))
	a.replayRun("import_refused", durable.ImportWorkflowID(string(id)))
	require.Equal(t, before, a.traces())
}

func TestImport_anotherWorkerFinishesIt(t *testing.T) {
	t.Parallel()
	a := newAbroad(t)
	data := a.exported()
	a.files.on.Store(true)
	id, over := a.load(data)
	<-a.files.started
	a.worker.Stop()
	a.files.on.Store(false)
	a.startWorker()
	a.register()
	require.NoError(t, (<-over).err)
	a.replayRun("import_worker_died", durable.ImportWorkflowID(string(id)))
}

func TestImport_cancelledByAnOperator_leavesNothing(t *testing.T) {
	t.Parallel()
	a := newAbroad(t)
	data := a.exported()
	before := a.traces()
	a.files.on.Store(true)
	id, over := a.load(data)
	<-a.files.started
	require.NoError(t, temporal.Operator{Client: a.client, Chats: a.stack.chats}.Cancel(t.Context(), durable.ImportWorkflowID(string(id))))
	require.True(t, domain.HasCode((<-over).err, "import_cancelled"))
	a.replayRun("import_cancelled", durable.ImportWorkflowID(string(id)))
	require.Equal(t, before, a.traces())
}

// A workflow that was terminated, or whose start was lost, is started again.
func TestWorkChecker_Imports_startsThemAgain(t *testing.T) {
	t.Parallel()
	a := newAbroad(t)
	data := a.exported()
	a.files.on.Store(true)
	id, over := a.load(data)
	<-a.files.started
	a.files.on.Store(false)
	require.NoError(t, a.client.TerminateWorkflow(t.Context(), durable.ImportWorkflowID(string(id)), "", "as if its start had been lost"))
	_, err := a.journal.Pool.Exec(t.Context(), `UPDATE imports SET changed_at = now() - interval '1 minute' WHERE session_id = $1`, id)
	require.NoError(t, err)
	require.NoError(t, a.check(1, work.Imports(a.runs, a.transfers.Abort))(t.Context()))
	require.NoError(t, (<-over).err)
}

// endless are objects of which those of an import's archive cannot be removed.
type endless struct {
	*objects.Store
	started chan struct{}
}

func (e *endless) DeletePrefix(ctx context.Context, prefix string) error {
	select {
	case e.started <- struct{}{}:
	default:
	}

	<-ctx.Done()

	return context.Cause(ctx)
}

// The deletion of a session closes an import that has made it and is still open.
func TestSessionDeleter_closesAnOpenImport(t *testing.T) {
	t.Parallel()

	stuck := &endless{started: make(chan struct{}, 1)}
	a := newAbroadOn(t, func(store *objects.Store) recordings.Objects {
		stuck.Store = store
		return stuck
	})
	data := a.exported()
	id, over := a.load(data)
	require.NoError(t, (<-over).err)
	<-stuck.started
	a.delete(id)
	described, err := a.client.DescribeWorkflowExecution(t.Context(), durable.ImportWorkflowID(string(id)), "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, described.GetWorkflowExecutionInfo().GetStatus())
	keys, err := a.objects.Keys(t.Context(), "imports/"+string(id)+"/")
	require.NoError(t, err)
	require.Empty(t, keys)
}

// delete removes a session with everything it has, and waits for that.
func (a *abroad) delete(session domain.SessionID) {
	a.t.Helper()
	a.removal((&outside{}).SessionDeleted, a.files.Remove, a.objects.DeletePrefix)
	deleter := a.deleter(a.runs.StartDeletion)
	require.NoError(a.t, deleter.DeleteSession(a.t.Context(), session))
	a.histories(durable.DeletionWorkflowID(string(session)))
}

// The deletion of a session closes a rewind that is under way, and its caller is
// answered.
func TestSessionDeleter_closesAnOpenHistoryOperation(t *testing.T) {
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
	id := p.runID(session)
	rest := &outside{tries: 1}
	p.removal(rest.SessionDeleted, rest.Remove, rest.DeletePrefix)
	deleter := p.deleter(p.runs.StartDeletion)
	require.NoError(t, deleter.DeleteSession(t.Context(), session))
	p.histories(durable.DeletionWorkflowID(string(session)))
	described, err := p.client.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, described.GetWorkflowExecutionInfo().GetStatus())
	require.Equal(t, domain.NotFound, domain.AsError(<-over).Kind)
}
