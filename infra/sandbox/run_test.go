//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSandbox_environment(t *testing.T) {
	t.Setenv("SERVICE_SECRET", "TOP-SECRET")
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		spec := x.spec("")
		spec.Argv = []string{"env"}
		spec.Env = map[string]string{"GREETING": "hello = \n world", "HOME": "/elsewhere"}
		out, r := sh(t, s, spec)
		require.True(t, r.Success())
		require.Contains(t, out, "GREETING=hello = \n world")
		require.Contains(t, out, "HOME=/elsewhere")

		var names []string

		for line := range strings.SplitSeq(out, "\n") {
			if name, _, ok := strings.Cut(line, "="); ok {
				names = append(names, name)
			}
		}

		require.ElementsMatch(t, []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "GREETING"}, names)
	})
}

func TestHowCommandsEnd(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		require.NoError(t, os.WriteFile(x.dir+"/plain", nil, 0o644))

		cases := map[string]struct {
			argv []string
			dir  string
			want Result
		}{
			"success": {argv: []string{"true"}, want: Result{Cause: Exited}},
			"code":    {argv: []string{"sh", "-c", "exit 7"}, want: Result{Cause: Exited, ExitCode: 7}},
			"signal": {
				argv: []string{"sh", "-c", "kill -TERM $$"},
				want: Result{Cause: Exited, ExitCode: 143, Signal: "terminated"},
			},
			"killed itself": {argv: []string{"sh", "-c", "kill -9 $$"}, want: Result{Cause: Exited, ExitCode: 137, Signal: "killed"}},
			"no program": {
				argv: []string{"no-such-program"},
				want: Result{Cause: NotStarted, ExitCode: 127, Detail: "no-such-program: no such file or directory"},
			},
			"not executable": {
				argv: []string{"./plain"},
				want: Result{Cause: NotStarted, ExitCode: 127, Detail: "./plain: permission denied"},
			},
			"no directory": {
				argv: []string{"true"},
				dir:  "none",
				want: Result{Cause: NotStarted, ExitCode: 127, Detail: "working directory none: no such file or directory"},
			},
		}
		for name, c := range cases {
			spec := x.spec("")
			spec.Argv, spec.Dir = c.argv, c.dir
			_, r := sh(t, s, spec)
			r.Duration, r.CPUTime, r.MaxRSS = 0, 0, 0
			require.Equal(t, c.want, r, name)
		}

		spec := x.spec("pwd; echo made >here")
		spec.Dir = "a/b"

		require.NoError(t, os.MkdirAll(x.dir+"/a/b", 0o777))
		require.NoError(t, os.Chmod(x.dir+"/a/b", 0o777))
		out, r := sh(t, s, spec)
		require.True(t, r.Success())
		require.Equal(t, s.WorkspacePath(x.dir)+"/a/b", out)
		require.FileExists(t, x.dir+"/a/b/here")
	})
}

func TestMistakesOfTheCaller(t *testing.T) {
	s := open(t, Config{})

	x := newSession(t, s)
	for name, change := range map[string]func(*Spec){
		"no command":         func(p *Spec) { p.Argv = nil },
		"zero byte":          func(p *Spec) { p.Argv = []string{"a\x00b"} },
		"relative workspace": func(p *Spec) { p.Workspace = "x" },
		"absent workspace":   func(p *Spec) { p.Workspace += "-none" },
		"file as workspace":  func(p *Spec) { p.Workspace = "/etc/passwd" },
		"directory outside":  func(p *Spec) { p.Dir = "../x" },
		"absolute directory": func(p *Spec) { p.Dir = "/etc" },
		"variable name":      func(p *Spec) { p.Env = map[string]string{"A=B": "x"} },
		"too long":           func(p *Spec) { p.Argv = []string{"true", strings.Repeat("x", 2<<20)} },
	} {
		spec := x.spec("true")
		change(&spec)
		_, err := s.Run(t.Context(), spec)
		require.ErrorContains(t, err, "sandbox: ", name)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := s.Run(ctx, x.spec("true"))
	require.ErrorIs(t, err, context.Canceled)
	out, r := sh(t, s, x.spec("echo "+strings.Repeat("x", 120<<10)+" | wc -c"))
	require.True(t, r.Success())
	require.Equal(t, fmt.Sprint(120<<10+1), out)
}

func TestInputAndOutput(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		data := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB

		var stdout, stderr bytes.Buffer

		spec := x.spec("cat; echo problem >&2")
		spec.Stdin, spec.Stdout, spec.Stderr = strings.NewReader(data), &stdout, &stderr
		r, err := s.Run(t.Context(), spec)
		require.NoError(t, err)
		require.True(t, r.Success())
		require.Equal(t, data, stdout.String())
		require.Equal(t, "problem\n", stderr.String())

		// No input is end of file, an input that never ends does not hold the result.
		out, r := sh(t, s, x.spec("cat; echo end"))
		require.True(t, r.Success())
		require.Equal(t, "end", out)

		reader, writer := io.Pipe()
		defer func() { _ = writer.Close() }()

		spec = x.spec("echo done")
		spec.Stdin = reader
		_, r = sh(t, s, spec)
		require.True(t, r.Success())
	})
}

func TestServerOnStandardInput(t *testing.T) {
	apart(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		reader, writer := io.Pipe()
		spec := x.spec(`while read -r line; do echo "got $line"; done; echo bye`)
		spec.StdinPipe, spec.Stdout, spec.Limits.Wall = true, writer, 0
		p, err := s.Start(t.Context(), spec)
		require.NoError(t, err)

		buf := make([]byte, 64)

		for i := range 3 {
			_, err := fmt.Fprintf(p.Stdin(), "%d\n", i)
			require.NoError(t, err)
			n, err := reader.Read(buf)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("got %d\n", i), string(buf[:n]))
		}

		require.Positive(t, p.PID())
		require.NoError(t, p.Stdin().Close())

		n, err := reader.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "bye\n", string(buf[:n]))

		r, err := p.Wait()
		require.NoError(t, err)
		require.True(t, r.Success())

		p, err = s.Start(t.Context(), x.spec("sleep 600"))
		require.NoError(t, err)
		p.Kill()
		r, err = p.Wait()
		require.NoError(t, err)
		require.Equal(t, Cancelled, r.Cause)
		p.Kill() // after the end: nothing
	})
}

func TestSandbox_contextDeadline(t *testing.T) {
	s := open(t, Config{})

	x := newSession(t, s)
	for within := time.Second; ; within *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		r, err := s.Run(ctx, x.spec("sleep 600"))

		cancel()

		if errors.Is(err, context.DeadlineExceeded) && within < time.Minute {
			continue // it was over before the command could be started
		}

		require.NoError(t, err)
		require.Equal(t, Timeout, r.Cause)

		return
	}
}

func TestSandbox_parallelCommandsOfASession(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)

		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				spec := x.spec(fmt.Sprintf("echo %d >f%[1]d; cat f%[1]d", i))

				var out bytes.Buffer

				spec.Stdout = &out

				r, err := s.Run(context.Background(), spec)
				if err != nil || !r.Success() || out.String() != fmt.Sprintf("%d\n", i) {
					t.Errorf("%d: %v %v %q", i, r, err, out.String())
				}
			})
		}

		wg.Wait()
	})
}

func TestProcessorQuota(t *testing.T) {
	s := open(t, Config{})
	if s.cgroups.CPU == "" {
		t.Skip("no cpu control group may be made here")
	}

	x := newSession(t, s)
	spec := x.spec("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
	spec.Limits.CPU = 0.25
	r, err := s.Run(t.Context(), spec)
	require.NoError(t, err)
	require.True(t, r.Success())
	require.Greater(t, r.Duration, 2*r.CPUTime)
}

func TestReadySandboxIsUsedOnce(t *testing.T) {
	apart(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		sp := x.spec("true")
		_, r := sh(t, s, sp)
		require.True(t, r.Success())

		warm := func() *instance {
			var in *instance

			require.Eventually(t, func() bool {
				s.pool.mu.Lock()
				defer s.pool.mu.Unlock()

				if e := s.pool.warm[shapeOf(sp, s.dedicated)]; e != nil {
					if sl := e.Value.(*slot); sl.timer != nil {
						in = sl.in
					}
				}

				return in != nil
			}, time.Minute, time.Millisecond)

			return in
		}
		first := warm().pid
		p, err := s.Start(t.Context(), sp)
		require.NoError(t, err)
		require.Equal(t, first, p.PID())
		_, err = p.Wait()
		require.NoError(t, err)
		require.NotEqual(t, first, warm().pid)

		// A recreated workspace is not taken for the old one.
		require.NoError(t, os.Rename(x.dir, x.dir+"-old"))
		require.NoError(t, os.Mkdir(x.dir, 0o700))

		if s.DedicatedUsers() {
			require.NoError(t, os.Chown(x.dir, x.uid, x.uid))
		}

		_, r = sh(t, s, x.spec("echo new >mark"))
		require.True(t, r.Success())
		require.FileExists(t, x.dir+"/mark")

		gone := warm()

		s.Forget(x.dir)
		require.Eventually(t, func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/%d", gone.pid))
			return err != nil
		}, time.Minute, time.Millisecond)
	})
}

// A sandbox whose set-up fails is discarded, and never kept ready: the numbers of its
// descriptors are soon those of others.
func TestPool_keepsNoSandboxThatFailed(t *testing.T) {
	atLevel(t, Namespaced, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		sh := shapeOf(x.spec("true"), s.dedicated)

		s.live.Wait() // for what the choice of the level has started, which reads the view
		s.pool.busy.Wait()
		s.view.dirs = append(slices.Clone(s.view.dirs), filepath.Join(t.TempDir(), "missing"))

		in, err := s.prepare(sh)
		require.Error(t, err)
		require.Nil(t, in)

		s.pool.ensure(sh)
		s.pool.mu.Lock()
		sl := s.pool.warm[sh].Value.(*slot)
		s.pool.mu.Unlock()
		<-sl.done
		require.Nil(t, sl.in)

		_, err = s.Run(t.Context(), x.spec("true"))
		require.ErrorContains(t, err, "missing")
	})
}

func TestPool_boundedAndExpires(t *testing.T) {
	s := open(t, Config{WarmMax: 2, WarmIdle: 50 * time.Millisecond})
	for range 5 {
		x := newSession(t, s)
		_, r := sh(t, s, x.spec("true"))
		require.True(t, r.Success())
		s.pool.mu.Lock()
		require.LessOrEqual(t, s.pool.order.Len(), 2)
		s.pool.mu.Unlock()
	}

	require.Eventually(t, func() bool {
		s.pool.mu.Lock()
		defer s.pool.mu.Unlock()

		return s.pool.order.Len() == 0
	}, time.Minute, 5*time.Millisecond)
}

func TestCloseEndsCommands(t *testing.T) {
	apart(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		p, err := s.Start(t.Context(), x.spec("sleep 600"))
		require.NoError(t, err)
		s.Close()

		r, err := p.Wait()
		require.NoError(t, err)
		require.NotEqual(t, Exited, r.Cause)
		_, err = s.Run(t.Context(), x.spec("true"))
		require.ErrorIs(t, err, errClosed)

		for _, dir := range []string{s.cgroups.Memory, s.cgroups.PIDs} {
			if dir != "" {
				require.NoDirExists(t, dir)
			}
		}
	})
}

func TestNew_unconfinedIsExplicit(t *testing.T) {
	require.Equal(t, Namespaced, open(t, Config{Unsafe: true}).Level(), "the strongest that works comes first")
	_, err := New(t.Context(), Config{MaxLevel: -1})
	require.Error(t, err)
	_, err = New(t.Context(), Config{MinLevel: 3})
	require.ErrorContains(t, err, "no level 3")
	s := open(t, Config{Unsafe: true, MaxLevel: -1})
	require.Equal(t, Unconfined, s.Level())
	x := newSession(t, s)
	out, r := sh(t, s, x.spec(daemons+"pwd"))
	require.True(t, r.Success())
	require.Equal(t, x.dir, out)
	requireNoProcess(t, s, x)
}

func TestNew_belowMinimumLevel(t *testing.T) {
	_, err := New(t.Context(), Config{MinLevel: Namespaced, MaxLevel: Namespaced, ReadOnly: []string{"relative"}})
	require.ErrorContains(t, err, "not an absolute path")
	temp, err := os.MkdirTemp("/tmp", "everloop-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(temp)) })
	_, err = New(t.Context(), Config{MinLevel: Namespaced, MaxLevel: Namespaced, ReadOnly: []string{temp}})
	require.ErrorContains(t, err, "in /tmp, of which each sandbox has its own")

	if os.Getuid() != 0 {
		t.Skip("needs root to take the namespaces away")
	}
	// In a process that may not make user namespaces, as in a container.
	out, err := asUser(t, "TestPartRefused", "0", "SANDBOX_TEST_REFUSED=1").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "user.max_user_namespaces")
	require.Contains(t, string(out), "fallback: level 1")
}

// TestPartRefused runs only as a child of TestNew_belowMinimumLevel.
func TestPartRefused(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_REFUSED") == "" {
		t.Skip("a part of another test")
	}
	// An own user namespace whose limit of further ones is none.
	require.NoError(t, os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0o644))
	_, err := New(t.Context(), Config{})
	require.Error(t, err)
	fmt.Println(err)

	s := open(t, Config{MinLevel: Landlocked})
	fmt.Println("fallback: level", s.Level())
}

// asUser returns this test binary as a command: as another user, or with user "0"
// as root of its own user namespace.
func asUser(t *testing.T, run, user string, env ...string) *exec.Cmd {
	t.Helper()

	cmd := exec.Command("/proc/self/exe", "-test.run", run, "-test.v", "-test.timeout", "20m")

	cmd.Env = append(os.Environ(), append(env, "TMPDIR=/tmp")...)

	cmd.Dir = "/tmp"
	if user == "0" {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1 << 20}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1 << 20}},
		}

		return cmd
	}

	cmd.Env = append(cmd.Env, "SANDBOX_TEST_BOUNDED=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64123, Gid: 64123}}

	return cmd
}

// TestAsOrdinaryUser runs the escape tests with a service that is not root:
// commands then share the service's own user.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is not root")
	}

	tests := "HostFiles|TemporaryFiles|ServiceEnvironment|ProcessOne|HostNetwork|SystemCalls|Privileges|ForkBomb|MemoryLimit|" +
		"TemporarySpace|FileSize|ManyFiles|Daemons|Cancel|KilledService|HowCommandsEnd|InputAndOutput"
	out, err := asUser(t, tests, "64123").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "PASS: TestDaemonsDieWithTheCommand")
	require.NotContains(t, string(out), "SKIP")
}
