package embedded

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

func TestTemporalOnServerOfItsOwn(t *testing.T) {
	server := startPostgres(t, filepath.Join(t.TempDir(), "postgres"))
	defer stopPostgres(t, server)
	// As on a server that knows nothing of Temporal yet.
	execSQL(t, server.SuperuserURL("postgres"), "DROP DATABASE "+temporalDatabase)

	cfg := Config{Dir: t.TempDir(), Engines: []Engine{TemporalConfig{
		Frontend:    Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_ADDR"},
		DatabaseURL: server.SuperuserURL("postgres"), ServiceKey: testServiceKey,
	}}}
	cfg.Progress = func(part, state string) { t.Log(time.Now(), part, state) }
	first, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	c := temporalClient(t, addresses{Temporal: Of[*Temporal](first).Address()})
	_, err = c.CheckHealth(t.Context(), &client.CheckHealthRequest{})
	require.NoError(t, err)

	kept := func() time.Duration {
		namespace, err := c.WorkflowService().
			DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
		require.NoError(t, err)

		return namespace.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	}
	require.Equal(t, DefaultTemporalRetention, kept())
	busy := keyed(delayed(t, Of[*Temporal](first).Address(), 6*time.Second), testServiceKey)
	require.NoError(t, prepareNamespace(t.Context(), busy, 7*time.Hour), "a busy machine takes its time for the first answer")
	require.Equal(t, 7*time.Hour, kept(), "a namespace that is there follows the setting")

	requireClosedRunsBounded(t, c)
	c.Close()

	cfg.Dir = t.TempDir()
	_, err = Start(t.Context(), cfg)
	require.ErrorContains(t, err, "another process runs the embedded Temporal")

	require.NoError(t, first.Stop(context.Background()))

	var registered bool
	querySQL(t, server.SuperuserURL(temporalDatabase), "SELECT EXISTS (SELECT FROM namespaces WHERE name = 'everloop')", &registered)
	require.True(t, registered)

	var commit string
	querySQL(t, server.TCPURL(everloopDatabase), "SHOW synchronous_commit", &commit)
	require.Equal(t, "on", commit, "only Temporal's own connections may commit asynchronously")
}

// requireClosedRunsBounded closes runs, and requires that those which closed first are deleted.
func requireClosedRunsBounded(t *testing.T, c client.Client) {
	t.Helper()

	closed := func() (ids []string) {
		list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: Namespace, Query: closedBefore(time.Now()),
		})
		require.NoError(t, err)

		for _, run := range list.GetExecutions() {
			ids = append(ids, run.GetExecution().GetWorkflowId())
		}

		slices.Sort(ids)

		return ids
	}
	is := func(want ...string) {
		t.Helper()
		require.Eventually(t, func() bool { return slices.Equal(want, closed()) }, time.Minute, 50*time.Millisecond)
	}

	for _, id := range []string{"open", "first", "second", "third"} {
		_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "no-worker"}, "Chat")
		require.NoError(t, err)

		if id != "open" {
			require.NoError(t, c.TerminateWorkflow(t.Context(), id, "", "closed"))
		}
	}

	is("first", "second", "third")

	deleted, err := pruneClosedRuns(t.Context(), c, 3)
	require.NoError(t, err)
	require.Zero(t, deleted)

	deleted, err = pruneClosedRuns(t.Context(), c, 1)
	require.NoError(t, err)
	require.Equal(t, int64(2), deleted)
	is("third")
}

// delayed returns an address that leads to another one, after a while.
func delayed(t *testing.T, address string, by time.Duration) string {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })

	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			go func() {
				defer conn.Close()

				<-time.After(by)

				server, err := net.Dial("tcp", address)
				if err != nil {
					return
				}

				defer server.Close()
				go func() { _, _ = io.Copy(server, conn) }()

				_, _ = io.Copy(conn, server)
			}()
		}
	}()

	return listener.Addr().String()
}

func TestTemporal_asynchronousCommit(t *testing.T) {
	server := startPostgres(t, filepath.Join(t.TempDir(), "postgres"))
	defer stopPostgres(t, server)

	store := temporalSQL(server.URL("postgres"), temporalDatabase)
	db, err := store.Connect(store)
	require.NoError(t, err)

	defer db.Close()

	var commit, database string
	require.NoError(t, db.QueryRow("SELECT current_setting('synchronous_commit'), current_database()").Scan(&commit, &database))
	require.Equal(t, []string{"off", temporalDatabase}, []string{commit, database})
	require.Equal(t, temporalPoolSize, db.Stats().MaxOpenConnections)
}

func TestTemporal_addressErrorsHideSecrets(t *testing.T) {
	for _, url := range []string{
		"host=127.0.0.1 port=1 password=hunter2",
		"postgres://u:hunter2@127.0.0.1:1/x",
		"postgres://u:hunter2@[broken/x",
		"mysql://u:hunter2@127.0.0.1/x",
	} {
		_, err := Start(t.Context(), Config{Dir: t.TempDir(), Engines: []Engine{TemporalConfig{
			Frontend: Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_ADDR"}, DatabaseURL: url,
		}}})
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
