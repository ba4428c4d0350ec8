package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Databases made at every start when absent.
const (
	everloopDatabase           = "everloop"
	temporalDatabase           = "temporal"
	temporalVisibilityDatabase = "temporal_visibility"
)

// postgresUser is the superuser of the embedded cluster.
const postgresUser = "everloop"

// How long a start waits for a predecessor that is still going down. After a
// kill -9 of this process the old server needs a moment to notice and to end.
const staleServerWait = 15 * time.Second

// PostgresConfig configures the supervised PostgreSQL.
type PostgresConfig struct {
	// BinDir is the directory with the postgres and initdb programs. Empty means
	// to look for them; see findPostgres for the order.
	BinDir string
}

// Postgres is a PostgreSQL server running as a child of this process. It listens
// on loopback TCP and, where a short enough path can be had, on a Unix socket.
type Postgres struct {
	child     *child
	port      int
	socketDir string // empty: TCP only
	password  string
	logPath   string
}

// StartPostgres starts the server on dir, making the cluster at first use, and
// returns once the databases everloop, temporal and temporal_visibility can be used.
//
// Started by root, the server runs as the user postgres, or nobody. It ends
// cleanly when this process ends, even by kill -9.
func StartPostgres(ctx context.Context, dir string, cfg PostgresConfig, logger *slog.Logger) (*Postgres, error) {
	cluster, err := openCluster(ctx, dir, cfg.BinDir)
	if err != nil {
		return nil, err
	}
	defer cluster.close()

	port, err := freePort()
	if err != nil {
		return nil, err
	}
	socketDir := cluster.socketDir()
	if err := cluster.writeSettings(port, socketDir); err != nil {
		return nil, err
	}
	p := &Postgres{
		port:      port,
		socketDir: socketDir,
		password:  cluster.password,
		logPath:   filepath.Join(dir, "postgres.log"),
	}
	if err := p.launch(ctx, cluster, logger); err != nil {
		p.removeSocket()
		return nil, err
	}
	if err := p.createDatabases(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, p.Stop(stop))
	}
	return p, nil
}

// launch starts the server until it accepts connections. A predecessor that still
// holds the cluster is waited for: the server itself decides whether its pid file
// is stale, so the file is never removed here.
func (p *Postgres) launch(ctx context.Context, cluster *cluster, logger *slog.Logger) error {
	deadline := time.Now().Add(staleServerWait)
	for {
		log, err := openLog(p.logPath)
		if err != nil {
			return err
		}
		p.child, err = startChild(cluster.serverCommand(log.file))
		log.file.Close()
		if err != nil {
			return fmt.Errorf("run %s: %w", cluster.program("postgres"), err)
		}
		err = p.awaitReady(ctx)
		if err == nil {
			p.removeStaleSockets()
			return nil
		}
		p.child.signal(syscall.SIGQUIT)
		<-p.child.done
		said := log.written()
		held := strings.Contains(said, `lock file "postmaster.pid" already exists`) ||
			strings.Contains(said, "pre-existing shared memory block")
		if !held || ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("%w; its log %s ends with:\n%s", err, p.logPath, tail(said, 20))
		}
		logger.Warn("PostgreSQL of an earlier run is still ending; waiting for it", "dir", filepath.Dir(p.logPath))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// awaitReady returns when the server accepts connections, or has ended, or ctx has.
// Crash recovery may take long and is not a fault.
func (p *Postgres) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, p.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == "28P01" {
			return errors.New("PostgreSQL refuses the password kept beside its data: the file named password was changed")
		}
		select {
		case <-p.child.done:
			return fmt.Errorf("PostgreSQL did not start: %w", p.child.Err())
		case <-ctx.Done():
			return fmt.Errorf("wait for PostgreSQL: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func (p *Postgres) createDatabases(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, name := range []string{everloopDatabase, temporalDatabase, temporalVisibilityDatabase} {
		if err := createDatabase(ctx, conn, name); err != nil {
			return err
		}
	}
	return nil
}

// createDatabase makes a database unless it exists.
func createDatabase(ctx context.Context, conn *pgx.Conn, name string) error {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// URL is the connection string of a database for pgx, by the Unix socket where
// there is one. It contains the password.
func (p *Postgres) URL(database string) string {
	if p.socketDir == "" {
		return p.TCPURL(database)
	}
	query := url.Values{"host": {p.socketDir}, "port": {strconv.Itoa(p.port)}, "sslmode": {"disable"}}
	return p.url("", database, query)
}

// TCPURL is the connection string by loopback TCP, for clients that cannot use the
// socket. It contains the password.
func (p *Postgres) TCPURL(database string) string {
	return p.url("127.0.0.1:"+strconv.Itoa(p.port), database, url.Values{"sslmode": {"disable"}})
}

func (p *Postgres) url(host, database string, query url.Values) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(postgresUser, p.password), Host: host, Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}

// Pid is the process id of the server.
func (p *Postgres) Pid() int { return p.child.pid }

// Done is closed when the server has ended.
func (p *Postgres) Done() <-chan struct{} { return p.child.done }

// Err says how the server ended. It is valid once Done is closed, and never nil then.
func (p *Postgres) Err() error {
	return fmt.Errorf("%w; see %s", p.child.Err(), p.logPath)
}

// Stop shuts the server down: clients are disconnected, everything is written out.
// When ctx ends first the server is stopped at once; it then recovers at the next start.
func (p *Postgres) Stop(ctx context.Context) error {
	defer p.removeSocket()
	p.child.signal(syscall.SIGINT)
	select {
	case <-p.child.done:
		return nil
	case <-ctx.Done():
		p.child.signal(syscall.SIGQUIT)
		<-p.child.done
		return fmt.Errorf("PostgreSQL was stopped without a clean shutdown: %w", ctx.Err())
	}
}

// removeStaleSockets clears what killed servers of this cluster left under the ports
// of earlier starts. Once ours is ready no other can be alive.
func (p *Postgres) removeStaleSockets() {
	if p.socketDir == "" {
		return
	}
	ours := ".s.PGSQL." + strconv.Itoa(p.port)
	found, _ := filepath.Glob(filepath.Join(p.socketDir, ".s.PGSQL.*"))
	for _, path := range found {
		if strings.TrimSuffix(filepath.Base(path), ".lock") != ours {
			_ = os.Remove(path)
		}
	}
}

// removeSocket clears what a server that could not clean up left, and the directory
// of the socket unless another server uses it too.
func (p *Postgres) removeSocket() {
	if p.socketDir == "" {
		return
	}
	socket := filepath.Join(p.socketDir, ".s.PGSQL."+strconv.Itoa(p.port))
	for _, path := range []string{socket, socket + ".lock", p.socketDir} {
		_ = os.Remove(path)
	}
}

// serverLog is the server's log file, remembering where this run's part begins.
type serverLog struct {
	file   *os.File
	path   string
	offset int64
}

// maxLogSize bounds the server's log: a longer one is begun anew at the next start.
const maxLogSize = 8 << 20

func openLog(path string) (*serverLog, error) {
	// The directory belongs to the server's user, who must not be able to point
	// this process, perhaps root, at another file.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil && size > maxLogSize {
		size, err = 0, file.Truncate(0)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &serverLog{file: file, path: path, offset: size}, nil
}

// written returns what was logged since the file was opened.
func (l *serverLog) written() string {
	content, err := os.ReadFile(l.path)
	if err != nil || int64(len(content)) < l.offset {
		return ""
	}
	return string(content[l.offset:])
}

// tail returns the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
