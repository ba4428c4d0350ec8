package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestBoundLog_keepsTheEndOfALongLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "postgres.log")
	server, err := openLog(path)
	require.NoError(t, err)

	defer server.file.Close()

	_, err = server.file.Write(bytes.Repeat([]byte("refused\n"), maxLogSize/8+1))
	require.NoError(t, err)

	ended, bounded := make(chan struct{}), make(chan struct{})
	go func() {
		boundLog(path, time.Millisecond, ended, slog.Default())
		close(bounded)
	}()

	size := func() int64 {
		info, err := os.Stat(path)
		require.NoError(t, err)

		return info.Size()
	}

	require.Eventually(t, func() bool { return size() == keptLogSize }, time.Minute, time.Millisecond)
	close(ended)
	<-bounded

	_, err = server.file.WriteString("the last word\n")
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, content, keptLogSize+len("the last word\n"), "the server appends to what is left")
}

func TestShortenLog_followsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(target, make([]byte, maxLogSize+1), 0o600))
	require.NoError(t, os.Symlink(target, link))
	require.Error(t, shortenLog(link))

	info, err := os.Stat(target)
	require.NoError(t, err)
	require.EqualValues(t, maxLogSize+1, info.Size())
}

// A refused statement is no line of the log that shows its text and values.
func TestPostgresLog_holdsNoStatements(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "postgres")
	p, err := StartPostgres(t.Context(), dir, PostgresConfig{}, slog.Default())

	require.NoError(t, err)
	defer func() { require.NoError(t, p.Stop(context.WithoutCancel(t.Context()))) }()

	conn, err := pgx.Connect(t.Context(), p.URL(everloopDatabase))

	require.NoError(t, err)
	defer conn.Close(t.Context())

	_, err = conn.Exec(t.Context(), `CREATE TABLE taken (name text PRIMARY KEY)`)
	require.NoError(t, err)

	for range 2 {
		_, err = conn.Exec(t.Context(), `INSERT INTO taken VALUES ($1)`, "value-of-a-user")
	}

	require.ErrorContains(t, err, "duplicate key")

	content, err := os.ReadFile(p.logPath)
	require.NoError(t, err)
	require.Contains(t, string(content), "duplicate key")

	for _, hidden := range []string{"INSERT INTO", "value-of-a-user"} {
		require.False(t, strings.Contains(string(content), hidden), hidden)
	}
}
