package embedded

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/internal/pgprograms"
)

// cluster is a PostgreSQL data directory with everything needed to run it:
//
//	DIR/data           the cluster
//	DIR/data.tmp       a cluster during initialisation; removed at every start
//	DIR/password       the superuser's password, mode 0600
//	DIR/app-password   the application role's password, mode 0600
//	DIR/run            the Unix socket, mode 0700
//	DIR/postgres.log   the server's log
type cluster struct {
	dir     string
	install pgprograms.Installation
	account *account // user of the server; nil: this process's user
	// The passwords of the superuser and of the application role.
	superuserPassword, appPassword string
	// handle is an open descriptor of dir. The server's user often cannot reach dir by its path
	// (below root's home, for example), but can by an inherited descriptor.
	handle *os.File
}

// openCluster prepares dir and initialises the cluster when it does not exist.
func openCluster(ctx context.Context, dir, binDir string) (*cluster, error) {
	c := &cluster{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	major, err := c.existingMajor()
	if err != nil {
		return nil, err
	}

	if c.install, err = pgprograms.Find(ctx, binDir, major); err != nil {
		return nil, err
	}

	if c.account, err = serverAccount(c.dataDir()); err != nil {
		return nil, err
	}

	if c.superuserPassword, err = c.own("password", loadSecret); err != nil {
		return nil, err
	}

	if c.appPassword, err = c.own("app-password", loadSecret); err != nil {
		return nil, err
	}

	if err := c.account.chown(dir); err != nil {
		return nil, err
	}

	if !c.account.canWalkTo(dir) {
		if c.handle, err = openPathHandle(dir); err != nil {
			return nil, fmt.Errorf("user %s, who runs PostgreSQL, may not enter a directory above %s: "+
				"make those directories searchable (chmod o+x), or move DATA_DIR: %w", c.account.name, dir, err)
		}
	}

	if major == 0 {
		if err := c.initialise(ctx); err != nil {
			c.close()
			return nil, err
		}
	}

	return c, nil
}

func (c *cluster) close() {
	if c.handle != nil {
		c.handle.Close()
	}
}

func (c *cluster) dataDir() string { return filepath.Join(c.dir, "data") }

func (c *cluster) program(name string) string { return filepath.Join(c.install.BinDir, name) }

// own creates or loads a file of dir and changes its owner to the server's user.
func (c *cluster) own(name string, load func(path string) (string, error)) (string, error) {
	path := filepath.Join(c.dir, name)

	value, err := load(path)
	if err != nil {
		return "", err
	}

	return value, c.account.chown(path)
}

// existingMajor returns the major version of the cluster, or 0 without a cluster.
func (c *cluster) existingMajor() (int, error) {
	content, err := os.ReadFile(filepath.Join(c.dataDir(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Lstat(c.dataDir()); err == nil {
			return 0, fmt.Errorf(
				"%s exists but contains no PostgreSQL data: it was left untouched; move it away to start with an empty database",
				c.dataDir(),
			)
		}

		return 0, nil
	}

	if err != nil {
		return 0, err
	}

	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || major <= 0 {
		return 0, fmt.Errorf(
			"%s/PG_VERSION contains %q, which is not a version: the data was left untouched",
			c.dataDir(),
			strings.TrimSpace(string(content)),
		)
	}

	return major, nil
}

// initialise creates the cluster under a temporary name and renames it, so that an interrupted
// first start leaves no partial cluster.
func (c *cluster) initialise(ctx context.Context) error {
	temp := c.dataDir() + ".tmp"
	if err := os.RemoveAll(temp); err != nil {
		return err
	}

	cmd := c.command(c.program("initdb"),
		"-D", c.reach("data.tmp"), "-U", superuser, "-A", "scram-sha-256", "--pwfile="+c.reach("password"),
		"-k", "-E", "UTF8", "--locale=C.UTF-8")

	var output bytes.Buffer

	cmd.Stdout, cmd.Stderr = &output, &output

	run, err := startChild(cmd)
	if err != nil {
		return fmt.Errorf("run %s: %w", c.program("initdb"), err)
	}

	select {
	case <-run.done:
	case <-ctx.Done():
		run.signal(unix.SIGKILL)
		<-run.done

		return ctx.Err()
	}

	if run.state == nil || !run.state.Success() {
		return fmt.Errorf("initdb failed (%w):\n%s", run.Err(), tail(output.String(), 20))
	}

	conf, err := os.OpenFile(filepath.Join(temp, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}

	_, err = conf.WriteString("\ninclude '" + settingsFile + "'\n")
	if err := errors.Join(err, conf.Sync(), conf.Close()); err != nil {
		return err
	}

	if err := os.Rename(temp, c.dataDir()); err != nil {
		return err
	}

	return syncPath(c.dir)
}

// settingsFile is rewritten at every start; operators change settings with ALTER SYSTEM, which is
// read after it.
const settingsFile = "everloop.conf"

// settings are for one machine with little memory: all engines together should use below 400 MB
// when idle. Durability is not reduced: fsync and synchronous_commit stay on.
const settings = `# Written by Everloop at every start. Use ALTER SYSTEM for changes of your own.
shared_buffers = 48MB
max_connections = 123
work_mem = 4MB
maintenance_work_mem = 32MB
huge_pages = off
wal_level = minimal
max_wal_senders = 0
wal_compression = on
max_worker_processes = 2
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
autovacuum_max_workers = 2
jit = off
fsync = on
synchronous_commit = on
log_checkpoints = off
log_min_error_statement = panic
log_error_verbosity = terse
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
cluster_name = 'everloop'
listen_addresses = '127.0.0.1'
unix_socket_permissions = 0700
`

// Limits of max_wal_size in MB. With a small value, checkpoints run every minute under load, and
// after each PostgreSQL writes every changed page in full once more.
const (
	leastWAL = 256
	maxWAL   = 2048
)

// walSize returns max_wal_size in MB: an eighth of the free disk space at dir, within the limits.
func walSize(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}

	return walSizeFor(int64(fs.Bavail) * int64(fs.Bsize) >> 20), nil
}

// walSizeFor returns the size for an amount of free MB.
func walSizeFor(free int64) int64 { return min(max(free/8, leastWAL), maxWAL) }

func (c *cluster) writeSettings(port int, socketDir string) error {
	if strings.ContainsAny(socketDir, "'\n\\,") {
		socketDir = ""
	}

	wal, err := walSize(c.dataDir())
	if err != nil {
		return err
	}

	text := settings + fmt.Sprintf("port = %d\nunix_socket_directories = '%s'\nmax_wal_size = %dMB\n", port, socketDir, wal)

	path := filepath.Join(c.dataDir(), settingsFile)
	if err := writeFileAtomic(path, []byte(text), 0o600); err != nil {
		return err
	}

	return c.account.chown(path)
}

// maxSocketPath is the maximum length of a Unix socket's path on all systems.
const maxSocketPath = 103

// socketDir returns a private directory for the server's socket, or an empty string when no
// directory is both short and accessible to the server's user: TCP suffices then.
func (c *cluster) socketDir() string {
	sum := sha256.Sum256([]byte(c.dir))
	for _, dir := range []string{
		filepath.Join(c.dir, "run"),
		filepath.Join(os.TempDir(), fmt.Sprintf("everloop-%x", sum[:6])),
	} {
		if len(dir)+len("/.s.PGSQL.65535") > maxSocketPath || strings.ContainsAny(dir, "'\n\\,") {
			continue
		}

		if c.account.canWalkTo(filepath.Dir(dir)) && c.account.privateDir(dir) == nil {
			return dir
		}
	}

	return ""
}

// reach returns a path of a file of dir that the server's user can access.
func (c *cluster) reach(name string) string {
	if c.handle == nil {
		return filepath.Join(c.dir, name)
	}
	// The first of a child's ExtraFiles is its descriptor 3.
	return "/proc/self/fd/3/" + name
}

// serverCommand returns the command of the server, which logs to log.
func (c *cluster) serverCommand(log *os.File) *exec.Cmd {
	cmd := c.command(c.program("postgres"), "-D", c.reach("data"))
	cmd.Stdout, cmd.Stderr = log, log

	return cmd
}

// command returns a command that runs as the server's user with a minimal environment.
func (c *cluster) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"

	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/", "TZ=UTC"}
	if c.handle != nil {
		cmd.ExtraFiles = []*os.File{c.handle}
	}

	c.account.apply(cmd)

	return cmd
}
