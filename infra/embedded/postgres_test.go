package embedded

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// openDir returns a directory that every user can walk to; t.TempDir is closed to others.
func openDir(t *testing.T) string {
	t.Helper()

	dir, err := os.MkdirTemp("", "embedded-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })

	return dir
}

func TestPostgres_kindsOfDirectories(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))

	long := filepath.Join(openDir(t), strings.Repeat("long-", 20))
	for name, dir := range map[string]string{"open": openDir(t), "closed": closed, "too long for a socket": long} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(dir, "postgres")
			p := startPostgres(t, dir)
			require.FileExists(t, filepath.Join(p.socketDir, ".s.PGSQL."+strconv.Itoa(p.port)))

			if name == "open" {
				require.Equal(t, filepath.Join(dir, "run"), p.socketDir)
			}

			execSQL(t, p.URL(everloopDatabase), "CREATE TABLE kept AS SELECT 1 AS n")

			var fsync, commit, listen string
			querySQL(
				t,
				p.TCPURL("temporal"),
				"SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('listen_addresses')",
				&fsync,
				&commit,
				&listen,
			)
			require.Equal(t, []string{"on", "on", "127.0.0.1"}, []string{fsync, commit, listen})
			stopPostgres(t, p)
			require.NoDirExists(t, p.socketDir)

			again := startPostgres(t, dir)

			var n int
			querySQL(t, again.URL(everloopDatabase), "SELECT n FROM kept", &n)
			require.Equal(t, 1, n)
			stopPostgres(t, again)

			for _, private := range []string{"password", "app-password", "postgres.log"} {
				info, err := os.Stat(filepath.Join(dir, private))
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), private)
			}
		})
	}
}

func TestPostgres_afterKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "postgres")
	p := startPostgres(t, dir)
	execSQL(t, p.URL(everloopDatabase), "CREATE TABLE kept AS SELECT 1 AS n")
	require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGKILL))
	<-p.Done()
	require.ErrorContains(t, p.Err(), "signal: killed")

	again := startPostgres(t, dir)

	var n int
	querySQL(t, again.URL(everloopDatabase), "SELECT n FROM kept", &n)
	require.Equal(t, 1, n)
	stopPostgres(t, again)
	require.NoDirExists(t, again.socketDir, "sockets of the killed server were left")
}

func TestPostgres_predecessorEnding(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "postgres")
	p := startPostgres(t, dir)
	// A predecessor in the midst of its work, which ends while the next one starts.
	time.AfterFunc(time.Second, func() { p.child.signal(syscall.SIGINT) })

	again := startPostgres(t, dir)

	select {
	case <-p.Done():
	case <-time.After(time.Minute): // its end is noted a moment after it
		t.Fatal("two servers run on one directory")
	}

	stopPostgres(t, again)
}

func TestPostgres_predecessorStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "postgres")

	p := startPostgres(t, dir)
	defer stopPostgres(t, p)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()

	_, err := StartPostgres(ctx, dir, PostgresConfig{}, slog.Default())
	require.Error(t, err)
	require.NoError(t, ping(t, p.URL(everloopDatabase)), "the first server was harmed")
}

func TestPostgres_foreignData(t *testing.T) {
	for content, want := range map[string]string{
		"9.6\n": "is not a version",
		"11\n":  "written by PostgreSQL 11",
		"":      "is not a version",
	} {
		dir := filepath.Join(t.TempDir(), "postgres")
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
		version := filepath.Join(dir, "data", "PG_VERSION")
		require.NoError(t, os.WriteFile(version, []byte(content), 0o600))
		_, err := StartPostgres(t.Context(), dir, PostgresConfig{}, slog.Default())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "untouched")
		kept, err := os.ReadFile(version)
		require.NoError(t, err)
		require.Equal(t, content, string(kept))
	}

	dir := filepath.Join(t.TempDir(), "postgres")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data", "photos"), 0o700))
	_, err := StartPostgres(t.Context(), dir, PostgresConfig{}, slog.Default())
	require.ErrorContains(t, err, "contains no PostgreSQL data")
}

func TestPostgres_passwordChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "postgres")
	stopPostgres(t, startPostgres(t, dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("another\n"), 0o600))
	_, err := StartPostgres(t.Context(), dir, PostgresConfig{}, slog.Default())
	require.ErrorContains(t, err, "the file named password was changed")
	require.NotContains(t, err.Error(), "another")
}

func startPostgres(t *testing.T, dir string) *Postgres {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	p, err := StartPostgres(ctx, dir, PostgresConfig{}, slog.Default())
	require.NoError(t, err)
	t.Cleanup(func() { p.child.signal(syscall.SIGQUIT); <-p.Done() })

	return p
}

func stopPostgres(t *testing.T, p *Postgres) {
	t.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()

	require.NoError(t, p.Stop(ctx))
}

func execSQL(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func querySQL(t *testing.T, url, sql string, into ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(into...))
}

func ping(t *testing.T, url string) error {
	t.Helper()

	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return err
	}

	return conn.Close(context.Background())
}

func TestWalSizeFor(t *testing.T) {
	for free, want := range map[int64]int64{0: 256, 2 << 10: 256, 8 << 10: 1024, 100 << 10: 2048} {
		require.Equal(t, want, walSizeFor(free), "%d MB free", free)
	}
}
