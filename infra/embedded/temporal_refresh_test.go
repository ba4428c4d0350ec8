package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/api/adminservice/v1"
	enumsspb "go.temporal.io/server/api/enums/v1"
)

// short is a run of two workflow tasks with a timer between them.
func short(ctx workflow.Context) error { return workflow.Sleep(ctx, 200*time.Millisecond) }

// TestTemporal_runsGoOnAfterACrashOfPostgres kills a process of PostgreSQL while runs
// begin. The server writes its log to the disk so rarely here that the crash takes
// seconds of Temporal's commits; each run that is left must end all the same.
func TestTemporal_runsGoOnAfterACrashOfPostgres(t *testing.T) {
	const runs = 150

	server := startPostgres(t, filepath.Join(t.TempDir(), "postgres"))
	defer stopPostgres(t, server)

	superuser := server.SuperuserURL("postgres")
	execSQL(t, superuser, "ALTER SYSTEM SET wal_writer_delay = '10s'")
	execSQL(t, superuser, "ALTER SYSTEM SET wal_writer_flush_after = '1GB'")
	execSQL(t, superuser, "SELECT pg_reload_conf()")
	engines, err := Start(t.Context(), Config{Dir: t.TempDir(), Engines: []Engine{TemporalConfig{
		Frontend: Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_ADDR"}, DatabaseURL: superuser, ServiceKey: testServiceKey,
	}}})

	require.NoError(t, err)
	defer func() { require.NoError(t, engines.Stop(context.Background())) }()

	requireRefreshed(t, server)

	c := temporalClient(t, addresses{Temporal: Of[*Temporal](engines).Address()})
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(short, workflow.RegisterOptions{Name: "short"})

	require.NoError(t, w.Start())
	defer w.Stop()

	// A synchronous commit in the middle keeps what was written until then.
	name := func(i int) string { return fmt.Sprint("short/", i) }

	var starts sync.WaitGroup
	for side := range 10 {
		starts.Go(func() {
			for i := side; i < runs; i += 10 {
				_, _ = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: name(i), TaskQueue: taskQueue}, "short")
				if i == runs/2 {
					execSQL(t, superuser, "CREATE TABLE written_to_the_disk ()")
				}
			}
		})
	}

	starts.Wait()

	var backend int
	querySQL(t, superuser, "SELECT pid FROM pg_stat_activity WHERE application_name = 'temporal' LIMIT 1", &backend)
	require.NoError(t, syscall.Kill(backend, syscall.SIGKILL))

	open, kept := 0, 0

	require.Eventually(t, func() bool { // PostgreSQL recovers in the meantime
		return lookUp(server, "SELECT count(*) FROM current_executions WHERE state < 3", &open) == nil
	}, 5*time.Minute, 10*time.Millisecond)

	for i := range runs {
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			seen, err := c.DescribeWorkflowExecution(context.Background(), name(i), "")
			if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
				return // its start was lost whole
			}

			require.NoError(t, err)
			require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, seen.GetWorkflowExecutionInfo().GetStatus(), name(i))

			kept++
		}, 5*time.Minute, 100*time.Millisecond)
	}

	t.Logf("of %d runs, %d were kept, and %d were open again", runs, kept, open)
	require.Positive(t, open+runs-kept, "the crash took nothing") // a busy machine looks when those that were open have ended
	requireRefreshed(t, server)
}

// TestTemporal_warnsOfACrashOnly starts on a data directory without the row that a crash
// takes away, with a run that is open: nothing was lost, and nothing is said. Once the row
// is gone, something is.
func TestTemporal_warnsOfACrashOnly(t *testing.T) {
	server := startPostgres(t, filepath.Join(t.TempDir(), "postgres"))
	defer stopPostgres(t, server)

	said := &heardLog{}
	dir := t.TempDir()
	start := func() *Engines {
		engines, err := Start(t.Context(), Config{Dir: dir, Logger: slog.New(said), Engines: []Engine{TemporalConfig{
			Frontend:    Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_ADDR"},
			DatabaseURL: server.SuperuserURL("postgres"), ServiceKey: testServiceKey,
		}}})
		require.NoError(t, err)

		return engines
	}

	engines := start()

	requireRefreshed(t, server)

	c := temporalClient(t, addresses{Temporal: Of[*Temporal](engines).Address()})
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "open", TaskQueue: taskQueue}, "short") // no worker takes it
	require.NoError(t, err)
	require.NoError(t, engines.Stop(t.Context()))

	superuser := server.SuperuserURL(temporalDatabase)
	execSQL(t, superuser, "DROP TABLE everloop_no_crash_since") // as in a new data directory

	engines = start()
	defer func() { require.NoError(t, engines.Stop(context.Background())) }()

	requireRefreshed(t, server)
	require.Zero(t, said.crashes.Load(), "a start was taken for a crash")

	execSQL(t, superuser, "DELETE FROM everloop_no_crash_since") // as the recovery after a crash does
	require.Eventually(t, func() bool { return said.crashes.Load() == 1 }, time.Minute, 10*time.Millisecond)
}

// heardLog counts warnings of crashes.
type heardLog struct{ crashes atomic.Int64 }

func (h *heardLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *heardLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && strings.Contains(r.Message, "not shut down cleanly") {
		h.crashes.Add(1)
	}

	return nil
}

func (h *heardLog) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h *heardLog) WithGroup(string) slog.Handler { return h }

// asked is a run that takes updates until it is cancelled.
func asked(ctx workflow.Context) error {
	if err := workflow.SetUpdateHandler(ctx, "ask", func(workflow.Context) error { return nil }); err != nil {
		return err
	}

	_ = ctx.Done().Receive(ctx, nil)

	return ctx.Err()
}

// TestTemporal_refreshedWhileAnUpdateWaits refreshes a run of which the server has the
// workflow task of an update in memory only, as those of a worker deployment have when a
// crash hits the registration of a version. It must continue taking updates.
func TestTemporal_refreshedWhileAnUpdateWaits(t *testing.T) {
	server := startPostgres(t, filepath.Join(t.TempDir(), "postgres"))
	defer stopPostgres(t, server)

	engines, err := Start(t.Context(), Config{Dir: t.TempDir(), Engines: []Engine{TemporalConfig{
		Frontend:    Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_ADDR"},
		DatabaseURL: server.SuperuserURL("postgres"), ServiceKey: testServiceKey,
	}}})

	require.NoError(t, err)
	defer func() { require.NoError(t, engines.Stop(context.Background())) }()

	temporal := Of[*Temporal](engines)

	requireRefreshed(t, server) // as at each first start
	refresh, err := newCrashRefresh(server.SuperuserURL("postgres"), temporal.transport, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	defer refresh.conn.Close()

	c := temporalClient(t, addresses{Temporal: temporal.Address()})
	begin := func() worker.Worker {
		w := worker.New(c, taskQueue, worker.Options{})
		w.RegisterWorkflowWithOptions(asked, workflow.RegisterOptions{Name: "asked"})
		require.NoError(t, w.Start())

		return w
	}
	id := systemRuns + "test"
	ask := func(ctx context.Context) error {
		update, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: "ask", WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err != nil {
			return err
		}

		return update.Get(ctx, nil)
	}

	first := begin()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: taskQueue}, "asked")
	require.NoError(t, err)
	require.NoError(t, ask(t.Context()))
	first.Stop()

	described, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
	require.NoError(t, err)

	open := openRun{
		namespace: uuid.MustParse(described.GetNamespaceInfo().GetId()), run: uuid.MustParse(run.GetRunID()),
		workflow: id, namespaceName: Namespace,
	}
	waiting, leave := context.WithCancel(t.Context())

	var left sync.WaitGroup
	left.Go(func() { _ = ask(waiting) })
	require.Eventually(t, func() bool {
		state, err := refresh.admin.DescribeMutableState(t.Context(), &adminservice.DescribeMutableStateRequest{
			Namespace: Namespace, Execution: open.execution(), SkipForceReload: true,
		})
		kind := state.GetCacheMutableState().GetExecutionInfo().GetWorkflowTaskType()

		return err == nil && kind == enumsspb.WORKFLOW_TASK_TYPE_SPECULATIVE
	}, time.Minute, time.Millisecond, "no update waits")

	require.NoError(t, refresh.refresh(t.Context(), open))
	leave()
	left.Wait()

	_, err = refresh.reload(t.Context(), open) // as a restart of the server does
	require.NoError(t, err)

	defer begin().Stop()

	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	require.NoError(t, ask(soon), "the run takes no updates any more")
}

// requireRefreshed waits until the server has refreshed its runs since the last crash.
func requireRefreshed(t *testing.T, server *Postgres) {
	t.Helper()
	require.Eventually(t, func() bool {
		var refreshed bool

		err := lookUp(server, "SELECT coalesce(bool_or(refreshed), false) FROM everloop_no_crash_since", &refreshed)

		return err == nil && refreshed
	}, time.Minute, 100*time.Millisecond)
}

// lookUp reads a value of Temporal's database, which may be away for a moment.
func lookUp(server *Postgres, sql string, into any) error {
	conn, err := pgx.Connect(context.Background(), server.SuperuserURL(temporalDatabase))
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())

	return conn.QueryRow(context.Background(), sql).Scan(into)
}
