package embedded

import (
	"context"
	"errors"
	"fmt"
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

// Databases that every start creates when missing.
const (
	everloopDatabase           = "everloop"
	temporalDatabase           = "temporal"
	temporalVisibilityDatabase = "temporal_visibility"
)

// applicationDatabases are owned by the application role.
var applicationDatabases = []string{everloopDatabase, temporalDatabase, temporalVisibilityDatabase}

// staleServerWait is how long a start waits for the end of a previous server. After a kill -9 of
// this process the old server needs a moment to notice and to stop.
const staleServerWait = 15 * time.Second

// PostgresConfig configures the supervised PostgreSQL.
type PostgresConfig struct {
	// BinDir is the directory with the postgres and initdb programs. Empty: search for them in
	// the order of pgprograms.Find.
	BinDir string
}

func (c PostgresConfig) name() string      { return "postgres" }
func (c PostgresConfig) title() string     { return "PostgreSQL" }
func (c PostgresConfig) after() []string   { return nil }
func (c PostgresConfig) listens() []Listen { return nil }

func (c PostgresConfig) start(ctx context.Context, dir string, _ *Engines, logger *slog.Logger) (Running, error) {
	return StartPostgres(ctx, filepath.Join(dir, "postgres"), c, logger)
}

// Postgres is a PostgreSQL server in a child process. It listens on loopback TCP and, where a
// short enough path is available, on a Unix socket.
type Postgres struct {
	child     *child
	port      int
	socketDir string // empty: TCP only
	logPath   string

	superuserPassword string
	appPassword       string
}

// StartPostgres starts the server in dir, initialises the cluster at the first start, and returns
// when the databases everloop, temporal and temporal_visibility are usable.
//
// Started by root, the server runs as the user postgres, or nobody. It stops cleanly when this
// process ends, even by kill -9.
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
		port:              port,
		socketDir:         socketDir,
		superuserPassword: cluster.superuserPassword,
		appPassword:       cluster.appPassword,
		logPath:           filepath.Join(dir, "postgres.log"),
	}
	if err := p.launch(ctx, cluster, logger); err != nil {
		p.removeSocket()
		return nil, err
	}

	if err := p.prepareDatabases(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()

		return nil, errors.Join(err, p.Stop(stop))
	}

	return p, nil
}

// launch starts the server and waits until it accepts connections. It retries while a previous
// server still uses the cluster. PostgreSQL itself decides whether its pid file is stale; it is
// never removed here.
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
			go boundLog(p.logPath, logCheckEvery, p.child.done, logger)

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

		logger.Warn("waiting for the PostgreSQL of an earlier run to end", "dir", filepath.Dir(p.logPath))

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// awaitReady returns when the server accepts connections or has ended, or ctx is cancelled. Crash
// recovery can take long and is not an error.
func (p *Postgres) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	for {
		conn, err := pgx.Connect(ctx, p.SuperuserURL("postgres"))
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

// createDatabase creates a database unless it exists.
func createDatabase(ctx context.Context, conn *pgx.Conn, name string) error {
	var exists bool

	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for database %s: %w", name, err)
	}

	if exists {
		return nil
	}

	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" OWNER "+applicationRole); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}

	return nil
}

// URL returns the connection string of a database for pgx with the application role, through the
// Unix socket if there is one. It contains the role's password.
func (p *Postgres) URL(database string) string {
	return p.url(url.UserPassword(applicationRole, p.appPassword), database)
}

// SuperuserURL is URL with the superuser of the cluster, for tests and maintenance that create
// databases. The service itself does not use it after its start.
func (p *Postgres) SuperuserURL(database string) string {
	return p.url(url.UserPassword(superuser, p.superuserPassword), database)
}

// TCPURL is URL through loopback TCP, for clients that cannot use the socket.
func (p *Postgres) TCPURL(database string) string {
	return p.tcpURL(url.UserPassword(applicationRole, p.appPassword), database)
}

func (p *Postgres) url(user *url.Userinfo, database string) string {
	if p.socketDir == "" {
		return p.tcpURL(user, database)
	}

	query := url.Values{"host": {p.socketDir}, "port": {strconv.Itoa(p.port)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: user, Path: "/" + database, RawQuery: query.Encode()}

	return u.String()
}

func (p *Postgres) tcpURL(user *url.Userinfo, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     user,
		Host:     "127.0.0.1:" + strconv.Itoa(p.port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}

	return u.String()
}

// Pid returns the process id of the server.
func (p *Postgres) Pid() int { return p.child.pid }

// Done is closed when the server has ended.
func (p *Postgres) Done() <-chan struct{} { return p.child.done }

// Err returns how the server ended; valid once Done is closed, and never nil then.
func (p *Postgres) Err() error {
	return fmt.Errorf("%w; see %s", p.child.Err(), p.logPath)
}

// Stop shuts the server down: it disconnects clients and writes a checkpoint. When ctx is
// cancelled first, the server is stopped immediately and recovers at the next start.
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

// removeStaleSockets removes sockets that killed servers of this cluster left for other ports. It
// must be called when this server is ready, so that no other can be running.
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

// removeSocket removes the leftover socket, and its directory unless another server uses it.
func (p *Postgres) removeSocket() {
	if p.socketDir == "" {
		return
	}

	socket := filepath.Join(p.socketDir, ".s.PGSQL."+strconv.Itoa(p.port))
	for _, path := range []string{socket, socket + ".lock", p.socketDir} {
		_ = os.Remove(path)
	}
}

// tail returns the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
