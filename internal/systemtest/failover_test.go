package systemtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/internal/pgprograms"
	"everloop/internal/testkit"
)

// replicated is a PostgreSQL server with an asynchronous standby.
type replicated struct {
	t    *testing.T
	bin  string
	root string
	as   *syscall.Credential

	primary, standby *exec.Cmd
	ports            [2]string // of the primary and of the standby
	stream           *testkit.FaultProxy
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()

	found, err := pgprograms.Find(t.Context(), "", 0)
	require.NoError(t, err)

	r := &replicated{t: t, bin: found.BinDir}

	r.root, err = os.MkdirTemp("", "replicated-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(r.root) })

	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			account, err = user.Lookup("daemon")
		}

		require.NoError(t, err)

		uid, err := strconv.Atoi(account.Uid)
		require.NoError(t, err)
		gid, err := strconv.Atoi(account.Gid)
		require.NoError(t, err)

		r.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // an account of this machine
		require.NoError(t, os.Chown(r.root, uid, gid))
	}

	primary, standby := filepath.Join(r.root, "primary"), filepath.Join(r.root, "standby")
	r.run(r.program("initdb"), "--no-sync", "-A", "trust", "-U", "everloop", "-E", "UTF8", "--locale=C.UTF-8", "-D", primary)
	r.run("cp", "-a", primary, standby)
	r.run("touch", filepath.Join(standby, "standby.signal"))

	for i := range r.ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)

		_, r.ports[i], err = net.SplitHostPort(listener.Addr().String())
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	}

	r.primary = r.start(primary, r.ports[0])
	r.await("everloop", r.ports[0], "SELECT NOT pg_is_in_recovery()")

	r.stream = testkit.Proxy(t, "127.0.0.1:"+r.ports[0])
	_, port, err := net.SplitHostPort(r.stream.Addr())
	require.NoError(t, err)

	r.standby = r.start(standby, r.ports[1], "-c", "primary_conninfo=host=127.0.0.1 user=everloop port="+port)
	r.await("postgres", r.ports[1], "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')")

	return r
}

func (r *replicated) program(name string) string { return filepath.Join(r.bin, name) }

func (r *replicated) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.as, Pdeathsig: syscall.SIGQUIT}

	return cmd
}

func (r *replicated) run(name string, args ...string) {
	r.t.Helper()

	said, err := r.command(name, args...).CombinedOutput()
	require.NoError(r.t, err, "%s", said)
}

func (r *replicated) start(dir, port string, more ...string) *exec.Cmd {
	r.t.Helper()

	args := []string{
		"-D", dir, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off",
		"-c", "wal_keep_size=1GB", "-c", "wal_retrieve_retry_interval=100ms",
	}
	server := r.command(r.program("postgres"), append(args, more...)...)
	server.Stdout, server.Stderr = r.t.Output(), r.t.Output()
	require.NoError(r.t, server.Start())
	r.t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
	})

	return server
}

// await waits until a query of a server returns true. The database everloop is created.
func (r *replicated) await(database, port, query string) {
	r.t.Helper()

	require.Eventually(r.t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()

		conn, err := pgx.Connect(ctx, "host=127.0.0.1 user=everloop dbname=postgres sslmode=disable port="+port)
		if err != nil {
			return false
		}
		defer conn.Close(ctx)

		if database == "everloop" {
			_, _ = conn.Exec(ctx, "CREATE DATABASE everloop")
		}

		var holds bool

		return conn.QueryRow(ctx, query).Scan(&holds) == nil && holds
	}, time.Minute, 50*time.Millisecond, query)
}

// url leads to the server of the two that takes writes.
func (r *replicated) url() string {
	return fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%s,%s user=everloop dbname=everloop sslmode=disable target_session_attrs=read-write",
		r.ports[0], r.ports[1])
}

// cut waits until the standby has all, and keeps from it what is committed afterwards.
func (r *replicated) cut(db *postgres.DB) {
	r.t.Helper()

	require.Eventually(r.t, func() bool {
		var same bool

		return db.Pool.QueryRow(r.t.Context(), `
			SELECT bool_and(replay_lsn >= pg_current_wal_insert_lsn()) FROM pg_stat_replication`).Scan(&same) == nil && same
	}, time.Minute, time.Millisecond)
	r.stream.Down()
}

// failOver kills the primary and promotes the standby.
func (r *replicated) failOver() {
	r.t.Helper()

	require.NoError(r.t, r.primary.Process.Kill())
	_, _ = r.primary.Process.Wait()
	r.await("postgres", r.ports[1], "SELECT pg_promote()")
}

// PostgreSQL fails over to a standby that lacks its last commits, while one chat has ended in
// them, one works, and events of one wait for the event log.
func TestFailover_toStandbyThatLacksCommits(t *testing.T) {
	t.Parallel()

	servers := newReplicated(t)
	require.NoError(t, postgres.Migrate(t.Context(), servers.url()))

	db, err := postgres.Open(t.Context(), servers.url(), postgres.Options{MaxConns: 8, ConnectTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(db.Close)

	s := newStackOver(t, db, func(mock http.Handler) http.Handler { return mock }, testkit.Events(t), nil)

	wait := func(name string) obj {
		return bash(fmt.Sprintf("echo x >> %s-runs; until [ -e %s ]; do sleep 0.05; done", name, name))
	}
	ending, working := s.session(), s.session()
	ended := s.send(ending, script(obj{"steps": []obj{{"calls": []obj{wait("ending")}}, {"text": "the end"}}}))
	works := s.send(working, script(obj{"steps": []obj{
		{"calls": []obj{wait("first")}}, {"calls": []obj{wait("second")}}, {"text": "done"},
	}}))
	s.awaitFile("ending-runs")
	s.awaitFile("first-runs")
	require.NoError(t, s.journal.Flush(t.Context()))

	servers.cut(db)

	// What follows is lost: the end of one chat, a step of the other, and a message.
	s.write("ending")
	s.awaitEnd(ending, ended.ChatID)
	s.write("first")
	s.awaitFile("second-runs")
	lost := s.send(s.session(), "lost")

	servers.failOver()
	s.write("second")

	require.Eventually(t, func() bool { return db.Ping(t.Context()) == nil && db.Failovers() == 1 }, patience, 50*time.Millisecond)

	s.reconcileUntil(works.ChatID, func() bool {
		_ = s.reconciler.WakeSessions(t.Context())
		s.age(ended.ChatID)

		return s.status(ending) == domain.SessionCompleted && s.status(working) == domain.SessionCompleted
	})

	for session, chat := range map[domain.SessionID]domain.ChatID{ending: ended.ChatID, working: works.ChatID} {
		s.awaitEnds(session, chat, 1)
		next := s.send(session, script(obj{"steps": []obj{{"text": "next"}}}))
		require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["status"])
		s.awaitEnds(session, chat, 1)
	}

	s.nothingUnpublished()

	var known bool
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM chats WHERE id = $1)`, lost.ChatID).Scan(&known))
	require.False(t, known, "the test has lost commits")

	turns := s.messages(working)
	require.True(t, slices.IsSortedFunc(turns, func(a, b domain.Turn) int { return int(a.Sequence - b.Sequence) }))
}

// nothingUnpublished waits until the event log has all events of the database.
func (s *stack) nothingUnpublished() {
	s.t.Helper()

	require.Eventually(s.t, func() bool {
		var left int

		_, err := s.journal.PublishLeft(s.t.Context(), 0)

		return err == nil && s.journal.Pool.QueryRow(s.t.Context(), `SELECT count(*) FROM outbox WHERE seq IS NULL`).Scan(&left) == nil &&
			left == 0
	}, patience, 50*time.Millisecond)
}
