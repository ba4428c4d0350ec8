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

// crashRefresh schedules the tasks of all open runs again after PostgreSQL has crashed
// under a Temporal server that continued. Temporal's tables commit asynchronously
// (docs/decisions/0008-temporal-commits-asynchronously.md): the crash may have taken the last commits, while the server in
// memory counts the tasks of those commits as done and never reads them again. A first
// workflow task or a timer that is lost in this way is not repeated, and
// the runs of Temporal itself (worker deployments, schedules) have no reconciler.
//
// A crash is recognised by a row in an unlogged table, which PostgreSQL empties in its
// recovery.
type crashRefresh struct {
	databaseURL string // of Temporal's database
	conn        *grpc.ClientConn
	admin       adminservice.AdminServiceClient
	logger      *slog.Logger

	// first reports that the row was never written: there is no crash to recover from.
	first bool
}

const (
	// crashLookEvery is how often the row is looked for.
	crashLookEvery = 2 * time.Second
	// refreshTimeout bounds one call of the server.
	refreshTimeout = 30 * time.Second
	// refreshPage is how many runs are read at once.
	refreshPage = 500
	// systemRuns start the ids of Temporal's own runs. They work by updates, which no
	// run of Everloop does.
	systemRuns = "temporal-sys-"
)

// crashTable has one row while PostgreSQL has not crashed; refreshed reports whether the
// open runs have been refreshed since the row was written.
const crashTable = `CREATE UNLOGGED TABLE IF NOT EXISTS everloop_no_crash_since (written_at timestamptz NOT NULL, refreshed boolean ` +
	`NOT NULL)`

// startCrashRefresh starts to look for crashes. Stop ends that.
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

// newCrashRefresh connects to the server's administration.
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

// run looks for crashes until ctx ends.
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

// follow looks for crashes on one connection, and returns when that is lost.
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

// once refreshes the open runs if PostgreSQL has crashed since it last did. A crash in
// the meantime takes the row away again, and the next call starts over.
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

// refreshAll refreshes every open run and returns how many there were.
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

// openRuns reads the next page of open runs behind one. The table is that of the
// server's version which go.mod names.
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

// refresh lets the server write the tasks of one run again, from the state of the run.
// Those that are done already are recognised and dropped by the server.
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
	case codes.OK, codes.NotFound: // it has closed in the meantime
		return nil
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted:
		return err // the server is away or busy: all are tried again
	default: // the fault is the run's own, and must not hold up the others
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

// refreshUpdated refreshes a run that may have an update under way. The workflow task of
// an update is speculative: the server keeps it in memory only. RefreshWorkflowTasks
// writes it to the database all the same, where it is never dispatched, and the run takes
// no more updates once it is loaded from there. So the server forgets what it has in
// memory first, which the client of an update repeats. Where the next update was quicker,
// the state is built again from the history of the run, which knows no such task.
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

// reload lets the server read the state of a run from the database, and gives the kind of
// its open workflow task there.
func (c *crashRefresh) reload(ctx context.Context, run openRun) (enumsspb.WorkflowTaskType, error) {
	state, err := c.admin.DescribeMutableState(ctx, &adminservice.DescribeMutableStateRequest{
		Namespace: run.namespaceName, Execution: run.execution(),
	})

	return state.GetDatabaseMutableState().GetExecutionInfo().GetWorkflowTaskType(), err
}
