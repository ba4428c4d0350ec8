package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/server/api/adminservice/v1"
	enumsspb "go.temporal.io/server/api/enums/v1"
	"go.temporal.io/server/common/primitives"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// crashRefresh reschedules the tasks of all open runs after PostgreSQL has crashed while the
// Temporal server kept running. Temporal's tables commit asynchronously
// (docs/decisions/0008-temporal-commits-asynchronously.md): the crash can lose the last commits,
// while the server in memory has acknowledged the tasks of those commits and never reads them
// again. A lost first workflow task or timer is not repeated, and Temporal's own runs (worker
// deployments, schedules) have no reconciler.
//
// A crash is detected by a row in an unlogged table, which PostgreSQL truncates in its recovery.
type crashRefresh struct {
	databaseURL string // of Temporal's database
	conn        *grpc.ClientConn
	admin       adminservice.AdminServiceClient
	logger      *slog.Logger

	// first reports that the row was never written: no crash to recover from.
	first bool
}

const (
	// crashLookEvery is the interval of checking the row.
	crashLookEvery = 2 * time.Second
	// refreshTimeout is the timeout of one request to the server.
	refreshTimeout = 30 * time.Second
	// refreshPage is the number of runs per page.
	refreshPage = 500
	// systemRuns is the prefix of the ids of Temporal's own runs. They use updates, in contrast
	// to Everloop's.
	systemRuns = "temporal-sys-"
)

// crashTable contains one row while PostgreSQL has not crashed; refreshed reports whether the
// open runs have been refreshed since the row was written.
const crashTable = `CREATE UNLOGGED TABLE IF NOT EXISTS everloop_no_crash_since (written_at timestamptz NOT NULL, refreshed boolean ` +
	`NOT NULL)`

// startCrashRefresh starts the checks for crashes; stop ends them.
func startCrashRefresh(serverURL string, transport *processTransport, logger *slog.Logger) (stop func(), err error) {
	c, err := newCrashRefresh(serverURL, transport, logger)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(context.Background())

	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.conn.Close()

		c.run(ctx)
	}()

	return func() { cancel(); <-done }, nil
}

// newCrashRefresh connects to the server's admin service.
func newCrashRefresh(serverURL string, transport *processTransport, logger *slog.Logger) (*crashRefresh, error) {
	url, err := databaseAt(serverURL, temporalDatabase, map[string]string{"application_name": "everloop-temporal-refresh"})
	if err != nil {
		return nil, err
	}

	conn, err := grpc.NewClient(temporalTarget,
		transport.dialTo(primitives.FrontendService), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}

	return &crashRefresh{databaseURL: url, conn: conn, admin: adminservice.NewAdminServiceClient(conn), logger: logger}, nil
}

// run checks for crashes until ctx is cancelled.
func (c *crashRefresh) run(ctx context.Context) {
	failures := 0

	for {
		if err := c.follow(ctx); ctx.Err() == nil && err != nil {
			if failures++; failures%30 == 1 {
				c.logger.Warn("failed to check for crashes of Temporal's database, retrying", "failures", failures, "error", err)
			}
		} else {
			failures = 0
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(crashLookEvery):
		}
	}
}

// follow checks for crashes on one connection until it is lost.
func (c *crashRefresh) follow(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.databaseURL)
	if err != nil {
		return withoutURL("connect to database "+temporalDatabase, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))

	if err := conn.QueryRow(ctx, `SELECT to_regclass('everloop_no_crash_since') IS NULL`).Scan(&c.first); err != nil {
		return err
	}

	if _, err := conn.Exec(ctx, crashTable); err != nil {
		return err
	}

	for {
		if err := c.once(ctx, conn); err != nil {
			return err
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(crashLookEvery):
		}
	}
}

// once refreshes the open runs if PostgreSQL has crashed since the last refresh. A crash during
// the refresh removes the row again, and the next call starts over.
func (c *crashRefresh) once(ctx context.Context, conn *pgx.Conn) error {
	var refreshed bool

	err := conn.QueryRow(ctx, `SELECT coalesce(bool_or(refreshed), false) FROM everloop_no_crash_since`).Scan(&refreshed)
	if err != nil || refreshed {
		return err
	}

	if _, err := conn.Exec(ctx, `
		INSERT INTO everloop_no_crash_since SELECT now(), false WHERE NOT EXISTS (SELECT FROM everloop_no_crash_since)`); err != nil {
		return err
	}

	runs, err := c.refreshAll(ctx, conn)
	if err != nil {
		return err
	}

	if runs > 0 && !c.first {
		c.logger.Warn("PostgreSQL was not shut down cleanly; the tasks of all open Temporal runs were scheduled again", "runs", runs)
	}

	if _, err = conn.Exec(ctx, `UPDATE everloop_no_crash_since SET refreshed = true`); err == nil {
		c.first = false
	}

	return err
}

// openRun is a row of Temporal's table of current runs.
type openRun struct {
	shard          int32
	namespace, run uuid.UUID
	workflow       string
	namespaceName  string
}

func (r openRun) execution() *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: r.workflow, RunId: r.run.String()}
}

// refreshAll refreshes every open run and returns their number.
func (c *crashRefresh) refreshAll(ctx context.Context, conn *pgx.Conn) (total int, err error) {
	last := openRun{shard: -1}
	for {
		runs, err := openRuns(ctx, conn, last)
		if err != nil {
			return total, err
		}

		for _, run := range runs {
			if err := c.refresh(ctx, run); err != nil {
				return total, fmt.Errorf("refresh run %s of workflow %s: %w", run.run, run.workflow, err)
			}

			total++
		}

		if len(runs) < refreshPage {
			return total, nil
		}

		last = runs[len(runs)-1]
	}
}

// openRuns returns the next page of open runs after a run. The table is from the schema of the
// server's version in go.mod.
func openRuns(ctx context.Context, conn *pgx.Conn, behind openRun) ([]openRun, error) {
	rows, err := conn.Query(ctx, `
		SELECT shard_id, namespace_id, workflow_id, run_id, n.name FROM current_executions c JOIN namespaces n ON n.id = c.namespace_id
		WHERE  state IN ($1, $2) AND (shard_id, namespace_id, workflow_id) > ($3, $4, $5)
		ORDER  BY shard_id, namespace_id, workflow_id LIMIT $6`,
		int32(enumsspb.WORKFLOW_EXECUTION_STATE_CREATED), int32(enumsspb.WORKFLOW_EXECUTION_STATE_RUNNING),
		behind.shard, behind.namespace[:], behind.workflow, refreshPage)
	if err != nil {
		return nil, err
	}

	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r openRun, err error) {
		var namespace, run []byte
		if err := row.Scan(&r.shard, &namespace, &r.workflow, &run, &r.namespaceName); err != nil {
			return r, err
		}

		return r, errors.Join(r.namespace.UnmarshalBinary(namespace), r.run.UnmarshalBinary(run))
	})
}

// refresh makes the server write the tasks of one run again, from the state of the run. The
// server detects and drops tasks that were already completed.
func (c *crashRefresh) refresh(ctx context.Context, run openRun) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()

	var err error
	if strings.HasPrefix(run.workflow, systemRuns) {
		err = c.refreshUpdated(ctx, run)
	} else {
		err = c.refreshTasks(ctx, run)
	}

	switch status.Code(err) {
	case codes.OK, codes.NotFound: // NotFound: closed in the meantime
		return nil
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted:
		return err // the server is unavailable or busy: all are retried
	default: // an error of this run only must not block the others
		c.logger.Error("failed to schedule the tasks of a Temporal run again; it is left out",
			"workflow_id", run.workflow, "run_id", run.run.String(), "error", err)

		return nil
	}
}

func (c *crashRefresh) refreshTasks(ctx context.Context, run openRun) error {
	_, err := c.admin.RefreshWorkflowTasks(ctx, &adminservice.RefreshWorkflowTasksRequest{
		NamespaceId: run.namespace.String(), Execution: run.execution(),
	})

	return err
}

// refreshUpdated refreshes a run with a possible update in flight. The workflow task of an update
// is speculative: the server stores it in memory only. RefreshWorkflowTasks writes it to the
// database nevertheless, where it is never dispatched, and the run accepts no further updates
// once it is loaded from there. So the server drops its memory of the run first, and the client
// of an update repeats it. If the next update was faster, the state is rebuilt from the history
// of the run, which does not contain such a task.
func (c *crashRefresh) refreshUpdated(ctx context.Context, run openRun) error {
	if _, err := c.reload(ctx, run); err != nil {
		return err
	}

	if err := c.refreshTasks(ctx, run); err != nil {
		return err
	}

	task, err := c.reload(ctx, run)
	if err != nil || task != enumsspb.WORKFLOW_TASK_TYPE_SPECULATIVE {
		return err
	}

	_, err = c.admin.RebuildMutableState(ctx, &adminservice.RebuildMutableStateRequest{
		Namespace: run.namespaceName, Execution: run.execution(),
	})

	return err
}

// reload makes the server read the state of a run from the database, and returns the type of its
// open workflow task there.
func (c *crashRefresh) reload(ctx context.Context, run openRun) (enumsspb.WorkflowTaskType, error) {
	state, err := c.admin.DescribeMutableState(ctx, &adminservice.DescribeMutableStateRequest{
		Namespace: run.namespaceName, Execution: run.execution(),
	})

	return state.GetDatabaseMutableState().GetExecutionInfo().GetWorkflowTaskType(), err
}
