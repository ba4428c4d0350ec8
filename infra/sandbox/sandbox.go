//go:build linux

package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/forkserver"
	"everloop/internal/diskspace"
)

// Config says what a Sandbox must and may do.
type Config struct {
	// MinLevel is the weakest level that the service may run with. Zero means
	// Namespaced, unless Unsafe is set.
	MinLevel Level
	// MaxLevel, when above zero, keeps stronger levels from being tried; below
	// zero, with Unsafe, commands are not confined even where they could be.
	MaxLevel Level
	// Unsafe permits level 0 where nothing stronger works. Commands can then do
	// whatever the service can.
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
	// must be out of the ranges that /etc/subuid and /etc/subgid give to others.
	UserBase int

	noGroups bool // for tests: as on a host where no control group may be made
}

// Sandbox runs commands at one level. It is safe for concurrent use.
type Sandbox struct {
	config     Config
	level      Level
	dedicated  bool // each session has its own user
	view       hostView
	cgroups    *cgroups
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
	live   sync.WaitGroup // clean-up that runs behind a result
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
			config.WarmMax = 32 // an engine has processes of its own for each
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

	groups := findCgroups(config)
	s := &Sandbox{config: config, view: view, cgroups: groups, helper: newHelper(groups.adopt), devNull: null, scratch: scratch}
	s.users.below = config.UserBase
	s.accounts.total, s.accounts.held = groups.total, groups.holds()

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

// view is what commands see of the host, whose parts of it hold no secret of the service.
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

// scratchDir makes the parent of private temporary directories and removes
// those that services which were killed left behind.
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

// choose tries the levels, strongest first.
func (s *Sandbox) choose(ctx context.Context) error {
	users := []bool{false}

	if os.Geteuid() == 0 && !s.config.SharedUser {
		if err := checkSubordinate(s.config.UserBase); err != nil {
			return err
		}

		users = []bool{true, false}
	}

	if s.containers != nil {
		return s.chooseContainers(ctx, users[0])
	}

	var refused []error

	for level := s.config.MaxLevel; level >= s.config.MinLevel; level-- {
		for _, dedicated := range users {
			s.level, s.dedicated = level, dedicated

			err := s.probe(ctx)
			if err == nil {
				return nil
			}

			if ctx.Err() != nil {
				return ctx.Err()
			}

			refused = append(refused, fmt.Errorf("level %s: %w", level, err))
		}
	}

	return fmt.Errorf("sandbox: commands of agents cannot be confined on this host as required (level %s or stronger).\n"+
		"Level 2 needs user namespaces: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 and "+
		"kernel.apparmor_restrict_unprivileged_userns=0 where these exist; in a container, security_opt seccomp=unconfined "+
		"and systempaths=unconfined. Level 1 needs Landlock (Linux 6.12) and must be permitted explicitly.\n%w",
		s.config.MinLevel, errors.Join(refused...))
}

// chooseContainers has no weaker way to fall back to.
func (s *Sandbox) chooseContainers(ctx context.Context, dedicated bool) error {
	s.level, s.dedicated = Namespaced, dedicated
	if !dedicated && os.Geteuid() == 0 {
		return errors.New("sandbox: commands cannot run as root in a container: sessions need users of their own")
	}

	return s.probe(ctx)
}

// probe runs a command that looks around.
func (s *Sandbox) probe(ctx context.Context) error {
	dir, err := os.MkdirTemp(s.scratch, "probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	if s.dedicated {
		if err := os.Chown(dir, s.ProbeUID(), s.ProbeUID()); err != nil {
			return err
		}
	}

	var out limitedBuffer

	spec := Spec{
		Argv: []string{"/bin/sh", "-c", "echo works >probe && cat probe"}, Workspace: dir, UID: s.ProbeUID(),
		Limits: Limits{Wall: 10 * time.Second}, Stdout: &out, Stderr: &out,
	}

	process, err := s.start(ctx, spec, false)
	if err != nil {
		return err
	}

	result, err := process.Wait()
	if err != nil {
		return err
	}

	if !result.Success() || out.String() != "works\n" {
		return fmt.Errorf("the trial command ended with %s, code %d: %q %s", result.Cause, result.ExitCode, out.String(), result.Detail)
	}

	return nil
}

// Level is how commands are confined.
func (s *Sandbox) Level() Level { return s.level }

// DedicatedUsers says whether Spec.UID is used, so that workspaces must belong
// to it.
func (s *Sandbox) DedicatedUsers() bool { return s.dedicated }

// ProbeUID is a host user that belongs to no session, for commands that try
// something out.
func (s *Sandbox) ProbeUID() int { return s.config.UserBase }

// Describe says in one line what holds, for the log and doctor.
func (s *Sandbox) Describe() string {
	user := "one user for all sessions"
	if s.dedicated {
		user = "a user for each session"
	}

	if s.containers != nil {
		return fmt.Sprintf("level %s, %s, %s", s.level, s.containers.describe(), user)
	}

	return fmt.Sprintf("level %s, %s, limits by %s", s.level, user, s.cgroups.describe())
}

// Measured says that no control group holds the memory or the processes of
// commands: the service then measures both and ends what is above its limit.
func (s *Sandbox) Measured() bool { return s.containers == nil && s.accounts.needed() }

// home is where a command begins, as it sees it: its workspace, or the empty
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

// WorkspacePath is the path under which a command sees its workspace.
func (s *Sandbox) WorkspacePath(workspace string) string {
	if s.level == Namespaced {
		return guestRoot
	}

	return workspace
}

// Forget discards what is kept ready for a workspace, which is about to be
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
	s.cgroups.close()
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

// instance is a prepared sandbox: its process 1 waits for a command.
type instance struct {
	*child
	shape   shape
	cgroup  *cgroup
	scratch string      // level 1: its temporary directory; a container: what it shows
	dir     dirID       // the workspace that it was made with
	owner   *containers // of a container

	listener net.Listener // of its proxy; nil: none, or it was handed on
}

// dirID identifies a directory, to see whether a path still names it.
type dirID struct{ dev, ino uint64 }

func identify(dir string) (dirID, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return dirID{}, &os.PathError{Op: "stat", Path: dir, Err: err}
	}

	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return dirID{}, &os.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	}

	return dirID{uint64(st.Dev), st.Ino}, nil
}

// prepare makes a sandbox up to the point where the command is missing. When it fails
// there is none.
func (s *Sandbox) prepare(sh shape) (*instance, error) {
	in := &instance{shape: sh}

	if err := s.make(in); err != nil {
		in.discard()
		return nil, err
	}

	return in, nil
}

// make is prepare, which discards what a failure leaves.
func (s *Sandbox) make(in *instance) (err error) {
	if !in.shape.private() {
		if in.dir, err = identify(in.shape.workspace); err != nil {
			return fmt.Errorf("sandbox: workspace: %w", err)
		}
	}

	if s.containers != nil {
		return s.makeContainer(in)
	}

	if in.cgroup, err = s.cgroups.new(in.shape); err != nil {
		return err
	}

	p, fds, err := s.program(in)
	for _, fd := range fds {
		defer func() { _ = unix.Close(fd) }()
	}

	if err != nil {
		return err
	}

	encoded, err := p.encode()
	if err != nil {
		return err
	}

	if in.child, err = s.helper.fork(encoded); err != nil {
		return err
	}

	if err := in.cgroup.attach(in.pid); err != nil {
		return err
	}

	if s.level == Namespaced {
		if err := in.mapUser(in.shape.uid, s.dedicated); err != nil {
			return err
		}
	}

	if err := in.send(make([]byte, forkserver.ReleaseSize), fds...); err != nil {
		return fmt.Errorf("sandbox: release: %w", err)
	}

	return in.setUp(p)
}

// makeContainer is the same for a sandbox that is a container.
func (s *Sandbox) makeContainer(in *instance) error {
	p := containerProgram(in.shape)

	encoded, err := p.encode()
	if err != nil {
		return err
	}

	if err := s.containers.start(in, s.dedicated); err != nil {
		return err
	}

	if err := in.send(binary.NativeEndian.AppendUint64(nil, uint64(len(encoded)))); err != nil {
		return fmt.Errorf("sandbox: release: %w", err)
	}

	if err := in.send(encoded); err != nil {
		return fmt.Errorf("sandbox: release: %w", err)
	}

	return in.setUp(p)
}

// setUp waits until a released sandbox has run its program.
func (in *instance) setUp(p *program) error {
	report, err := in.ready()
	if err != nil {
		return fmt.Errorf("sandbox: set-up was killed: %w", err)
	}

	if report.Kind != forkserver.Ready {
		return p.fault(report)
	}

	return nil
}

// program gives the set-up for the sandbox's level and the descriptors it needs.
func (s *Sandbox) program(in *instance) (*program, []int, error) {
	held := s.cgroups.holds()
	if s.level == Namespaced {
		return namespaceProgram(s.view, in.shape, s.dedicated, held), nil, nil
	}
	// A cleaner of /tmp may have been here.
	_ = os.Mkdir(s.scratch, 0o711)

	scratch, err := os.MkdirTemp(s.scratch, "tmp-")
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox: %w", err)
	}

	in.scratch = scratch
	if s.dedicated {
		if err := os.Chown(scratch, in.shape.uid, in.shape.uid); err != nil {
			return nil, nil, fmt.Errorf("sandbox: %w", err)
		}
	}

	var fds []int

	if s.level == Landlocked {
		ruleset, err := landlockRuleset(s.view, in.shape.workspace, scratch)
		if err != nil {
			return nil, nil, err
		}

		fds = []int{ruleset}
	}

	return landlockProgram(in.shape, s.dedicated, s.level == Landlocked, held), fds, nil
}

// discard ends a sandbox and takes away what was made for it.
func (in *instance) discard() {
	if in.child != nil {
		in.kill()
		in.wait(killTime)

		if in.owner != nil {
			in.owner.forget(in.child)
		}

		in.close()
	}

	if in.cgroup != nil {
		in.cgroup.remove()
	}

	if in.scratch != "" {
		_ = os.RemoveAll(in.scratch)
	}

	if in.listener != nil {
		_ = in.listener.Close()
	}
}
