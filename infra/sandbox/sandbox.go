//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/cgroup"
	"everloop/internal/diskspace"
)

// Config configures a Sandbox.
type Config struct {
	// MinLevel is the weakest level that the service may run with. Zero means
	// Namespaced, unless Unsafe is set.
	MinLevel Level
	// MaxLevel, when above zero, excludes stronger levels; below
	// zero, with Unsafe, commands are not confined even where they could be.
	MaxLevel Level
	// Unsafe permits level 0 where nothing stronger works. Commands can then do
	// anything that the service can.
	Unsafe bool
	// SharedUser runs all commands as the service's own user even when it is
	// root and could give each session its own: for workspaces on file systems
	// where root may not change owners.
	SharedUser bool
	// Containers, when set, makes each sandbox a container, of level Namespaced.
	Containers *Containers
	// ReadOnly are further host paths to show read-only at the same place, such
	// as /opt or /nix.
	ReadOnly []string
	// Private are directories of the service itself, such as its data. New fails if
	// commands would see one.
	Private []string
	// WarmMax bounds the sandboxes kept ready; 0 means 128, or 32 containers, negative none.
	WarmMax int
	// WarmIdle is how long a ready sandbox waits for a command; 0 means 30 s.
	WarmIdle time.Duration
	// Reserve is the part of the workspaces' file system that commands leave free.
	// While it is touched, the command that added most is ended, one after the other.
	Reserve diskspace.Reserve
	// MinFree is the least that is reserved, in bytes; 0 means 64 MiB.
	MinFree int64
	// TotalMemory and TotalProcesses bound all commands together; 0 means three
	// quarters of the memory and half of the processes that the host permits.
	TotalMemory    int64
	TotalProcesses int
	// CPUWeight is the share of the processors that all commands together have
	// beside the service when both want them, from 1 to 10000; 0 means 100, an
	// equal share.
	CPUWeight int
	// UserBase is the host user of the command that New tries: sessions' users are
	// above it, and those of private commands below. 0 means DefaultUserBase. It
	// must be outside the ranges of others in /etc/subuid and /etc/subgid.
	UserBase int

	noGroups bool // for tests: as on a host where no control group may be made
}

// groups returns the control groups that commands need.
func (c Config) groups() cgroup.Config {
	return cgroup.Config{
		Total:     cgroup.Totals{Memory: c.TotalMemory, Processes: c.TotalProcesses},
		CPUWeight: c.CPUWeight, Elsewhere: c.Containers != nil, None: c.noGroups,
	}
}

// Sandbox runs commands at one level. It is safe for concurrent use.
type Sandbox struct {
	config     Config
	level      Level
	dedicated  bool // each session has its own user
	view       hostView
	cgroups    *cgroup.Root
	accounts   accounts
	helper     *helper
	containers *containers // nil: sandboxes are forked
	pool       *pool
	usage      usageBook
	users      users // of private commands
	devNull    int
	scratch    string // level 1: parent of the private temporary directories

	mu     sync.Mutex
	closed bool
	live   sync.WaitGroup // clean-up that continues after a result
}

// New finds the strongest level that works on this host by really running a
// command, and fails when that is below the configured minimum.
func New(ctx context.Context, config Config) (*Sandbox, error) {
	if config.MinLevel == 0 && !config.Unsafe {
		config.MinLevel = Namespaced
	}

	if config.MinLevel < 0 || config.MinLevel > Namespaced {
		return nil, fmt.Errorf("sandbox: there is no level %d to require; 1 and 2 exist", int(config.MinLevel))
	}

	switch {
	case config.MaxLevel == 0 || config.MaxLevel > Namespaced:
		config.MaxLevel = Namespaced
	case config.MaxLevel < 0:
		config.MaxLevel = Unconfined
	}

	if config.WarmMax == 0 {
		config.WarmMax = 128
		if config.Containers != nil {
			config.WarmMax = 32 // an engine runs its own processes for each
		}
	}

	if config.WarmIdle == 0 {
		config.WarmIdle = 30 * time.Second
	}

	if config.MinFree == 0 {
		config.MinFree = 64 << 20
	}

	if config.UserBase == 0 {
		config.UserBase = DefaultUserBase
	}

	if config.CPUWeight == 0 {
		config.CPUWeight = 100
	}

	view, err := config.view()
	if err != nil {
		return nil, err
	}

	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}

	scratch, err := scratchDir()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}

	groups := cgroup.Find(config.groups())
	s := &Sandbox{config: config, view: view, cgroups: groups, helper: newHelper(groups.Adopt), devNull: null, scratch: scratch}
	s.users.below = config.UserBase
	s.accounts.total, s.accounts.held = groups.Total, groups.Holds()

	s.pool = newPool(s.prepare, config.WarmMax, config.WarmIdle)
	if config.Containers != nil {
		if s.containers, err = openContainers(ctx, config, view); err != nil {
			s.Close()
			return nil, err
		}
	}

	if err := s.choose(ctx); err != nil {
		s.Close()
		return nil, err
	}

	return s, nil
}

// view returns what commands see of the host, whose parts of it hold no secret of the service.
func (c Config) view() (hostView, error) {
	view, err := hostView{}, error(nil)
	if c.Containers == nil {
		view, err = scanHost(c.ReadOnly)
	} else {
		view.links = map[string]string{}
		view.scanProc()
		err = view.scanExtra(c.ReadOnly)
	}

	if err != nil {
		return view, err
	}

	return view, view.checkPrivate(c.Private)
}

const scratchPrefix = "everloop-sandbox-"

// scratchDir creates the parent of private temporary directories and removes
// directories that killed services left.
func scratchDir() (string, error) {
	stale, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	for _, dir := range stale {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), scratchPrefix), "-")
		if pid, err := strconv.Atoi(owner); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}

	dir, err := os.MkdirTemp("", scratchPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", err
	}

	return dir, os.Chmod(dir, 0o711)
}

// Level returns how commands are confined.
func (s *Sandbox) Level() Level { return s.level }

// DedicatedUsers reports whether Spec.UID is used, so that workspaces must belong
// to it.
func (s *Sandbox) DedicatedUsers() bool { return s.dedicated }

// ProbeUID returns a host user that belongs to no session, for commands that try
// something out.
func (s *Sandbox) ProbeUID() int { return s.config.UserBase }

// Describe returns one line about the confinement, for the log and doctor.
func (s *Sandbox) Describe() string {
	user := "one user for all sessions"
	if s.dedicated {
		user = "a user for each session"
	}

	if s.containers != nil {
		return fmt.Sprintf("level %s, %s, %s", s.level, s.containers.describe(), user)
	}

	return fmt.Sprintf("level %s, %s, limits by %s", s.level, user, s.cgroups.Describe())
}

// Measured reports that no control group limits the memory or the processes of
// commands: the service then measures both and ends what is above its limit.
func (s *Sandbox) Measured() bool { return s.containers == nil && s.accounts.needed() }

// home returns where a command starts, as it sees it: its workspace, or the empty
// directory that a private one has instead.
func (s *Sandbox) home(in *instance) string {
	switch {
	case !in.shape.private():
		return s.WorkspacePath(in.shape.workspace)
	case s.level == Namespaced:
		return guestHome
	default:
		return in.scratch
	}
}

// WorkspacePath returns the path under which a command sees its workspace.
func (s *Sandbox) WorkspacePath(workspace string) string {
	if s.level == Namespaced {
		return guestRoot
	}

	return workspace
}

// Forget discards the prepared sandboxes of a workspace, which is about to be
// removed or replaced.
func (s *Sandbox) Forget(workspace string) {
	workspace = filepath.Clean(workspace)

	s.pool.dropIf(func(sh shape) bool { return sh.workspace == workspace })
	s.usage.forget(workspace)
}

// Close ends every command that still runs.
func (s *Sandbox) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}

	s.closed = true
	s.mu.Unlock()
	s.pool.close()
	s.helper.close()

	if s.containers != nil {
		s.containers.close()
	}

	s.live.Wait()
	s.cgroups.Close()
	_ = unix.Close(s.devNull)
	_ = os.RemoveAll(s.scratch)
}

// enter counts a command, unless the sandbox is closed.
func (s *Sandbox) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.closed {
		s.live.Add(1)
	}

	return !s.closed
}

func (s *Sandbox) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.closed
}
