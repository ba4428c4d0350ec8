//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/forkserver"
)

// levels runs a test at each confining level that this host has.
func levels(t *testing.T, test func(t *testing.T, s *Sandbox)) {
	apart(t, test)
	atLevel(t, Landlocked, test)
}

// apart runs a test in each kind of sandbox with files, processes and a network of
// its own.
func apart(t *testing.T, test func(t *testing.T, s *Sandbox)) {
	atLevel(t, Namespaced, test)

	if os.Getuid() == 0 {
		t.Run("container", func(t *testing.T) { test(t, open(t, inContainers(t))) })
	}
}

func atLevel(t *testing.T, level Level, test func(t *testing.T, s *Sandbox)) {
	t.Run(strings.ReplaceAll(level.String(), " ", ""), func(t *testing.T) {
		test(t, open(t, Config{MinLevel: level, MaxLevel: level}))
	})
}

// denied asserts that a script's output shows nothing of the secret.
func denied(t *testing.T, s *Sandbox, spec Spec, secret string) string {
	t.Helper()
	out, _ := sh(t, s, spec)
	require.NotContains(t, out, secret)

	return out
}

func secretFile(t *testing.T, dir string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(path, []byte("TOP-SECRET"), 0o644))

	return path
}

func TestHostFilesAreOutOfReach(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x, other := newSession(t, s), newSession(t, s)
		host := secretFile(t, t.TempDir())
		theirs := secretFile(t, other.dir)
		require.NoError(t, os.Symlink(host, x.dir+"/link"))
		require.NoError(t, os.Symlink("/etc/shadow", x.dir+"/shadow"))

		for _, path := range []string{host, theirs, "link", "../../../../" + host, "/proc/1/root" + host, "/proc/$PPID/root" + host} {
			out := denied(t, s, x.spec("cat "+path), "TOP-SECRET")
			require.NotEmpty(t, out, "the attempt itself must fail with a message")
		}

		for _, path := range []string{
			"/etc/shadow", "shadow", "/root", "/var/lib", "/home", filepath.Dir(host),
			os.TempDir() + "/sandbox-test-*",
		} {
			_, r := sh(t, s, x.spec(fmt.Sprintf("ls %[1]s/ || cat %[1]s", path)))
			require.False(t, r.Success(), path)
		}

		for _, path := range []string{"/usr/x", "/etc/x", "/x", "/usr/bin/bash", host} {
			_, r := sh(t, s, x.spec("echo x >>"+path))
			require.False(t, r.Success(), path)
		}

		data, err := os.ReadFile(host)
		require.NoError(t, err)
		require.Equal(t, "TOP-SECRET", string(data))
	})
}

func TestTemporaryFilesArePrivate(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x, other := newSession(t, s), newSession(t, s)
		_, r := sh(t, s, x.spec("echo mine >$TMPDIR/mark && cat $TMPDIR/mark"))
		require.True(t, r.Success())

		for _, who := range []session{x, other} {
			out, _ := sh(t, s, who.spec("ls -A $TMPDIR"))
			require.Empty(t, out)
		}
	})
}

func TestSandbox_serviceEnvironment(t *testing.T) {
	// A real process with a secret in its environment, of the service's user.
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		victim := exec.Command("sleep", "3600")
		victim.Env = []string{"SECRET_TOKEN=TOP-SECRET"}

		require.NoError(t, victim.Start())
		defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()

		t.Setenv("SERVICE_SECRET", "TOP-SECRET")
		denied(t, s, x.spec("env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/1/environ /proc/$PPID/environ"), "TOP-SECRET")
		denied(t, s, x.spec("cat /proc/*/task/*/environ /proc/1/mem /proc/1/maps"), "TOP-SECRET")
		_, r := sh(t, s, x.spec(fmt.Sprintf("kill -9 %d", victim.Process.Pid)))
		require.False(t, r.Success())
		require.NoError(t, victim.Process.Signal(syscall.Signal(0)))

		if s.Level() == Namespaced {
			out, _ := sh(t, s, x.spec("cat /proc/*/cmdline | tr '\\0' ' '; ls /proc"))
			require.NotContains(t, out, "sleep 3600")
			require.NotContains(t, out, ".test")
		}
	})
}

func TestProcessOneIsOutOfReach(t *testing.T) {
	apart(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		out, r := sh(
			t,
			s,
			x.spec("kill -9 1; kill -TERM 1; cat /proc/1/mem; ls -l /proc/1/fd /proc/1/root; cat /proc/1/environ; echo survived"),
		)
		require.True(t, r.Success(), "%v %s", r, out)
		require.Contains(t, out, "survived")
		require.Contains(t, out, "denied")
	})
}

func TestHostNetworkIsOutOfReach(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)

		var targets []string

		listen := func(network, address string) {
			l, err := net.Listen(network, address)
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })

			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}

					_ = c.Close()
				}
			}()

			targets = append(targets, l.Addr().Network()+"="+l.Addr().String())
		}
		listen("tcp", "127.0.0.1:0")
		listen("tcp", "0.0.0.0:0")
		listen("unix", fmt.Sprintf("@everloop-test-%d", time.Now().UnixNano()))

		if s.Level() == Namespaced {
			// Level 1 does not promise this one.
			path := filepath.Join(t.TempDir(), "socket")
			listen("unix", path)
			require.NoError(t, os.Chmod(path, 0o777))
		}

		targets = append(targets, "udp=198.51.100.1:53", "tcp=198.51.100.1:80", "tcp=[::1]:22")
		spec := x.attack(t, append([]string{"dial"}, targets...)...)
		out, r := sh(t, s, spec)
		require.True(t, r.Success(), "%v %s", r, out)
		require.NotContains(t, out, "REACHED")
		require.Equal(t, len(targets), strings.Count("\n"+out, "\nno "), out)

		// Every TCP port of the host's loopback, the cheap way.
		out, _ = sh(
			t,
			s,
			x.spec(
				`for p in $(seq 1 400) 5432 4222 7233 8020 30000; do (echo >/dev/tcp/127.0.0.1/$p) 2>/dev/null && echo REACHED $p; `+
					`done; cat /proc/net/tcp`,
			),
		)
		require.NotContains(t, out, "REACHED")
	})
}

func TestOwnLoopbackWorks(t *testing.T) {
	s := open(t, Config{})
	x := newSession(t, s)
	out, r := sh(
		t,
		s,
		x.spec(
			`perl -MIO::Socket::INET -e '$s=IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1",LocalPort=>8080) or die; `+
				`if(!fork){$c=$s->accept;print $c "hello";exit} ' && cat </dev/tcp/127.0.0.1/8080`,
		),
	)
	require.True(t, r.Success(), out)
	require.Equal(t, "hello", out)
}

func TestSystemCallsThatLeadOut(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		out, r := sh(t, s, x.attack(t, "calls"))
		require.True(t, r.Success(), "%v %s", r, out)
		require.NotContains(t, out, "SUCCEEDED")
		require.Contains(t, out, "clone3: function not implemented")
		require.Contains(t, out, "unshare user: operation not permitted")
		require.Contains(t, out, "vsock: address family not supported")
	})
}

func TestCannotRaisePrivileges(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		out, _ := sh(
			t,
			s,
			x.spec(
				"cat /proc/self/status; dmesg; sysctl -w kernel.hostname=x; echo 1 >/proc/sys/kernel/panic; su -c id root </dev/null; "+
					"unshare -Ur id; mount -t tmpfs x /tmp; head -c1 /dev/vda /dev/sda /dev/mem",
			),
		)
		require.Contains(t, out, "CapEff:\t0000000000000000")
		require.Contains(t, out, "CapPrm:\t0000000000000000")
		require.Contains(t, out, "NoNewPrivs:\t1")
		require.Contains(t, out, "Seccomp:\t2")
		require.NotContains(t, out, "uid=0")
	})
}

func TestForkBombIsContained(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		spec := x.spec(`b(){ b|b& }; b; sleep 600`)
		spec.Limits.Processes, spec.Limits.Wall = 64, 1500*time.Millisecond
		began := time.Now()
		_, r := sh(t, s, spec)
		require.NotEqual(t, Lost, r.Cause)
		require.Less(t, time.Since(began), 5*time.Minute, "the sleep was waited for")
		requireNoProcess(t, s, x)
	})
}

// requireNoProcess asserts that nothing of a session's commands runs any more. A
// sandbox that is ready for the next command is not of a command.
func requireNoProcess(t *testing.T, s *Sandbox, x session) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, pid := range append(descendants(1), descendants(0)...) {
			dir := fmt.Sprintf("/proc/%d", pid)
			if cwd, err := os.Readlink(dir + "/cwd"); err == nil && strings.HasPrefix(cwd, x.dir) {
				return false
			}

			if !s.DedicatedUsers() {
				continue
			}

			status, _ := os.ReadFile(dir + "/status")

			line, _ := os.ReadFile(dir + "/cmdline")
			if strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", x.uid)) && len(line) > 0 && !isForkServer(line) {
				return false
			}
		}

		return true
	}, time.Minute, 5*time.Millisecond)
}

func isForkServer(cmdline []byte) bool {
	name, _, _ := strings.Cut(string(cmdline), "\x00")
	return name == forkserver.Arg0 || name == forkserver.GuestPath
}

func TestMemoryLimit(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		spec := x.attack(t, "allocate")
		spec.Limits.Memory = 256 << 20
		out, r := sh(t, s, spec)
		require.NotContains(t, out, "ALLOCATED")
		require.False(t, r.Success())

		if s.cgroups.Memory != "" || s.containers != nil {
			require.Equal(t, OutOfMemory, r.Cause)
			require.Equal(t, 137, r.ExitCode)
		}
	})
}

func TestTemporarySpaceIsLimited(t *testing.T) {
	apart(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		spec := x.spec(
			`head -c 100M /dev/zero >/tmp/a; head -c 100M /dev/zero >/dev/shm/a; du -sm /tmp /dev/shm; rm /tmp/a; for i in $(seq 70000); ` +
				`do : >/tmp/$i || break; done 2>&1`,
		)
		spec.Limits.Tmp = 16 << 20
		out, _ := sh(t, s, spec)
		require.Contains(t, out, "16\t/tmp")
		require.Contains(t, out, "16\t/dev/shm")
		require.Contains(t, out, "No space left")
	})
}

func TestFileSizeIsLimited(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		spec := x.spec(`exec head -c 100M /dev/zero >big`)
		spec.Limits.FileSize = 1 << 20
		_, r := sh(t, s, spec)
		require.Equal(t, FileTooLarge, r.Cause)

		info, err := os.Stat(x.dir + "/big")
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(1<<20))
	})
}

func TestSandbox_workspaceFullOfFiles(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		spec := x.spec(`mkdir d; i=0; while :; do head -c 1M /dev/zero >d/$i; i=$((i+1)); done`)
		spec.Limits.Workspace = 16 << 20
		_, r := sh(t, s, spec)
		require.Equal(t, WorkspaceFull, r.Cause)
		// A workspace that is too full can be emptied by a command that takes a while …
		spec = x.spec(`sleep 0.4; rm -r d; sleep 0.4`)
		spec.Limits.Workspace = 16 << 20
		_, r = sh(t, s, spec)
		require.True(t, r.Success(), "%v", r)
		// … and many empty files count too.
		spec = x.spec(`mkdir e; cd e; while :; do i=$((i+1)); : >$i; done`)
		spec.Limits.Workspace = 64 << 10
		_, r = sh(t, s, spec)
		require.Equal(t, WorkspaceFull, r.Cause)
	})
}

const daemons = `setsid nohup sh -c 'while :; do date >>beat; sleep 0.01; done' >/dev/null 2>&1 </dev/null &
(trap "" HUP TERM INT; setsid sleep 300 & ) >/dev/null 2>&1
while [ ! -s beat ]; do sleep 0.01; done; `

func TestDaemonsDieWithTheCommand(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		cases := map[string]struct {
			tail  string
			wall  time.Duration
			cause Cause
		}{
			"after a normal exit": {"exit 3", 5 * time.Minute, Exited},
			"after a time-out":    {"sleep 600", 700 * time.Millisecond, Timeout},
		}
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				x := newSession(t, s)

				spec := x.spec(daemons + c.tail)
				for spec.Limits.Wall = c.wall; ; spec.Limits.Wall *= 4 {
					_, r := sh(t, s, spec)
					require.Equal(t, c.cause, r.Cause)

					if _, err := os.Stat(x.dir + "/beat"); err == nil || spec.Limits.Wall > time.Minute {
						break
					} // the daemons had no time to start
				}

				size := func() int64 {
					info, err := os.Stat(x.dir + "/beat")
					require.NoError(t, err)

					return info.Size()
				}
				last := size()

				require.Never(t, func() bool { return size() != last }, 200*time.Millisecond, 10*time.Millisecond)
				requireNoProcess(t, s, x)
			})
		}
	})
}

func TestCancelIsQuick(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		p, err := s.Start(ctx, x.spec(daemons+"sleep 600"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, err := os.Stat(x.dir + "/beat"); return err == nil }, time.Minute, time.Millisecond)
		cancel()

		r, err := p.Wait()
		require.NoError(t, err)
		require.Equal(t, Cancelled, r.Cause, "the sleep was waited for")
		requireNoProcess(t, s, x)
	})
}

// doomedService is a service that starts a command with daemons and waits to
// be killed.
func doomedService() {
	var level Level

	_, _ = fmt.Sscan(os.Getenv("SANDBOX_TEST_LEVEL"), &level)

	config := Config{MinLevel: level, MaxLevel: level}
	if dir := os.Getenv("SANDBOX_TEST_CONTAINERS"); dir != "" {
		config.Containers = &Containers{Engine: os.Getenv("SANDBOX_TEST_ENGINE"), Image: os.Getenv("SANDBOX_TEST_IMAGE"), Dir: dir}
	}

	s, err := New(context.Background(), config)
	if err != nil {
		fmt.Println("FAILED", err)
		return
	}

	x := session{dir: os.Getenv("SANDBOX_TEST_DIR")}
	_, _ = fmt.Sscan(os.Getenv("SANDBOX_TEST_UID"), &x.uid)

	p, err := s.Start(context.Background(), x.spec(daemons+"sleep 600"))
	if err != nil {
		fmt.Println("FAILED", err)
		return
	}

	_, _ = p.Wait()
}

func TestSandbox_serviceKilled(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		service := exec.Command("/proc/self/exe")

		service.Env = append(os.Environ(), "SANDBOX_TEST_PART=service", "SANDBOX_TEST_DIR="+x.dir,
			fmt.Sprintf("SANDBOX_TEST_UID=%d", x.uid), fmt.Sprintf("SANDBOX_TEST_LEVEL=%d", s.Level()))
		if c := s.config.Containers; c != nil {
			service.Env = append(
				service.Env,
				"SANDBOX_TEST_CONTAINERS="+c.Dir,
				"SANDBOX_TEST_ENGINE="+c.Engine,
				"SANDBOX_TEST_IMAGE="+c.Image,
			)
		}

		service.Stdout, service.Stderr = os.Stderr, os.Stderr
		require.NoError(t, service.Start())
		require.Eventually(t, func() bool { _, err := os.Stat(x.dir + "/beat"); return err == nil }, time.Minute, 5*time.Millisecond)
		require.NoError(t, service.Process.Kill())
		_ = service.Wait()

		requireNoProcess(t, s, x)

		if s.containers != nil {
			s.Close() // its own that are ready
			requireNoContainer(t, s.config.Containers)
		}
	})
}

func TestForkServerIsStartedAgain(t *testing.T) {
	s := open(t, Config{})
	x := newSession(t, s)
	_, r := sh(t, s, x.spec("true"))
	require.True(t, r.Success())

	for _, pid := range descendants(os.Getpid()) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if isForkServer(line) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}

	require.Eventually(t, func() bool {
		out, r := sh(t, s, x.spec("echo again"))
		return r.Success() && out == "again"
	}, time.Minute, time.Millisecond)
}
