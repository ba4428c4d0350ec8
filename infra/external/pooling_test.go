package external_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/external"
	"everloop/internal/testkit"
)

func TestCheckPooling(t *testing.T) {
	t.Parallel()

	direct := testkit.Postgres(t)
	require.NoError(t, external.CheckPooling(t.Context(), direct))

	server, _ := external.ProbePostgres(t.Context(), direct)
	require.Equal(t, domain.CheckOK, server.Status)

	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed")
	}

	// The role has the parameters, so that only the sessions differ.
	parameters := "ignore_startup_parameters = enable_seqscan\n"
	for name, test := range map[string]struct {
		settings string
		query    string
	}{
		"parameters refused":  {"pool_mode = session\n", ""},
		"parameters dropped":  {"pool_mode = session\n" + parameters, ""},
		"transaction pooling": {"pool_mode = transaction\n" + parameters, "SET enable_seqscan = off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			pooled := startBouncer(t, program, direct, test.settings, test.query)
			err := external.CheckPooling(t.Context(), pooled)
			require.ErrorContains(t, err, "pool_mode = session")

			server, _ := external.ProbePostgres(t.Context(), pooled)
			require.Equal(t, domain.CheckFail, server.Status)
			require.Contains(t, server.Message, "PgBouncer")
		})
	}
}

// startBouncer starts PgBouncer in front of a database, and returns its URL. The query is
// run with each connection to PostgreSQL.
func startBouncer(t *testing.T, program, database, settings, query string) string {
	t.Helper()

	to, err := pgx.ParseConfig(database)
	require.NoError(t, err)

	dir, err := os.MkdirTemp("", "bouncer-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))

	account, run := postgresAccount(t)
	port := freePort(t)
	target := fmt.Sprintf("host=%s port=%d dbname=%s user=%s password='%s'", to.Host, to.Port, to.Database, to.User, to.Password)

	if query != "" {
		target += " connect_query='" + query + "'"
	}

	config := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"[databases]\n* = %s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nauth_type = any\nunix_socket_dir =\n%s",
		target, port, settings), 0o600))

	if account != nil {
		require.NoError(t, os.Chown(config, int(account.Uid), int(account.Gid)))
	}

	bouncer := run(program, config)
	require.NoError(t, bouncer.Start())
	t.Cleanup(func() {
		_ = bouncer.Process.Kill()
		_ = bouncer.Wait()
	})

	pooled := fmt.Sprintf("postgres://pooled@127.0.0.1:%d/pooled?sslmode=disable", port)

	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), pooled)
		if err == nil {
			err = conn.Close(t.Context())
		}

		return err == nil
	}, time.Minute, 10*time.Millisecond)

	return pooled
}
