package githost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// git runs the installed git without system or user configuration, with limits, each process in
// its own group.
type git struct {
	program string   // absolute path
	env     []string // of every process
	memory  uint64   // bytes of address space of one process
	file    uint64   // bytes of one file that a process writes
}

// ErrNoGit reports that git is not installed.
var ErrNoGit = errors.New("git hosting needs the program git: install it, and start the service again")

// settings returns settings of git that override a repository's.
func settings(hooks string) [][2]string {
	return [][2]string{
		{"core.hooksPath", hooks},
		{"core.fsync", "objects,derived-metadata,reference"},
		{"core.bigFileThreshold", "16m"}, // larger files are streamed, not read into memory
		{"core.packedGitLimit", "256m"},
		{"core.packedGitWindowSize", "32m"},
		{"core.deltaBaseCacheLimit", "64m"},
		{"core.protectHFS", "true"},
		{"core.protectNTFS", "true"},
		{"gc.auto", "0"},
		{"gc.autoDetach", "false"},
		{"pack.threads", "1"},
		{"pack.windowMemory", "128m"},
		{"pack.deltaCacheSize", "64m"},
		{"receive.advertisePushOptions", "false"},
		{"receive.autogc", "false"},
		{"receive.fsckObjects", "true"},
		{"receive.shallowUpdate", "false"},
		{"receive.unpackLimit", "1"}, // always a pack, whose memory is bounded
		{"receive.updateServerInfo", "false"},
		{"safe.directory", "*"},
		{"transfer.fsckObjects", "true"},
		{"transfer.unpackLimit", "1"},
		{"uploadpack.allowFilter", "true"},
		{"uploadpack.allowAnySHA1InWant", "false"},
		// Filters that git can serve without walking all trees for each client.
		{"uploadpackfilter.allow", "false"},
		{"uploadpackfilter.blob:none.allow", "true"},
		{"uploadpackfilter.blob:limit.allow", "true"},
		{"uploadpackfilter.tree.allow", "true"},
		{"uploadpackfilter.tree.maxDepth", "1"},
		{"user.useConfigOnly", "true"},
	}
}

func newGit(hooks, home string, memory, file uint64) (*git, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, ErrNoGit
	}

	g := &git{program: program, memory: memory, file: file}
	g.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_LITERAL_PATHSPECS=1", "GIT_ALLOW_PROTOCOL=none",
	}
	all := settings(hooks)

	g.env = append(g.env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(all)))
	for i, s := range all {
		g.env = append(g.env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}

	return g, nil
}

// endTime is the time between killing a process and closing its pipes.
const endTime = 5 * time.Second

// command prepares git; the end of ctx kills its process group.
func (g *git) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, args...)
	cmd.Env = append([]string{}, g.env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = endTime

	return cmd
}

// start runs a prepared command; done receives its result. The kernel sends the signal of
// Pdeathsig when the forking thread ends, so start locks that thread until the command ends.
func (g *git) start(cmd *exec.Cmd) (done <-chan error, err error) {
	started, ended := make(chan error, 1), make(chan error, 1)

	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine

		err := cmd.Start()
		if err == nil {
			err = g.limit(cmd.Process.Pid)
			if err != nil {
				_ = cmd.Cancel()
				_ = cmd.Wait()
			}
		}

		started <- err

		if err != nil {
			return
		}

		awaitExit(cmd.Process.Pid)

		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // kills git's child processes; the id is not reused before Wait
		ended <- cmd.Wait()
	}()

	if err := <-started; err != nil {
		return nil, fmt.Errorf("start git: %w", err)
	}

	return ended, nil
}

// awaitExit returns when a process has ended and leaves it as a zombie, so that its id is not
// reused.
func awaitExit(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// limit sets the limits of a process that has read no input yet, and of its children.
func (g *git) limit(pid int) error {
	for resource, most := range map[int]uint64{unix.RLIMIT_AS: g.memory, unix.RLIMIT_FSIZE: g.file, unix.RLIMIT_CORE: 0} {
		if most == 0 && resource != unix.RLIMIT_CORE {
			continue
		}

		bound := unix.Rlimit{Cur: most, Max: most}
		if err := unix.Prlimit(pid, resource, &bound, nil); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("limit git: %w", err)
		}
	}

	return nil
}

// errTooLong reports an output above its limit.
var errTooLong = errors.New("git wrote more than expected")

// bounded stores an output up to a limit.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, errTooLong
	}

	return b.Buffer.Write(p)
}

// tail stores the end of an output.
type tail struct{ text []byte }

const maxTail = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > maxTail {
		t.text = t.text[len(t.text)-maxTail:]
	}

	return len(p), nil
}

// exited is the error of a git process with a non-zero exit code.
type exited struct {
	code int
	text string // the end of its standard error
}

func (e *exited) Error() string {
	return fmt.Sprintf("git ended with exit code %d: %s", e.code, e.text)
}

// place is a repository and an optional quarantine directory.
type place struct {
	dir        string // the repository
	quarantine string // further objects, of a push that is not accepted yet; empty: none
}

func (p place) env() []string {
	env := []string{"GIT_DIR=" + p.dir}
	if p.quarantine != "" {
		env = append(env, "GIT_OBJECT_DIRECTORY="+p.quarantine, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+p.dir+"/objects",
			"GIT_QUARANTINE_PATH="+p.quarantine)
	}

	return env
}

// output runs a git command that reads a repository, and returns its output, at most `most`
// bytes.
func (g *git) output(ctx context.Context, at place, most int, args ...string) ([]byte, error) {
	out := &bounded{most: most}
	err := g.run(ctx, at, nil, out, args...)

	return out.Bytes(), err
}

// run runs git on a repository.
func (g *git) run(ctx context.Context, at place, in io.Reader, out io.Writer, args ...string) error {
	var complaint tail

	cmd := g.command(ctx, args...)
	cmd.Env = append(cmd.Env, at.env()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &complaint

	done, err := g.start(cmd)
	if err != nil {
		return err
	}

	err = <-done

	if ctx.Err() != nil {
		return ctx.Err()
	}

	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &exited{exit.ExitCode(), strings.TrimSpace(string(complaint.text))}
	}

	return err
}

// version returns the version of git.
func (g *git) version(ctx context.Context) (string, error) {
	out, err := g.output(ctx, place{dir: "/nonexistent"}, 1000, "version")
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "git version "), err
}
