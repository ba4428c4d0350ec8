package embedded

import (
	"context"
	"io"
	"net"
	"path/filepath"
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
