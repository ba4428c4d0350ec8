//go:build linux

package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The parts of /proc that reveal the host read as empty, and those that programs
// need do not.
func TestNamespaces_maskedProc(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})
	x := newSession(t, s)
	out, r := sh(
		t,
		s,
		x.spec(`cd /proc; for f in kcore kallsyms config.gz diskstats cmdline keys timer_list interrupts locks partitions kmsg; do
		test ! -e $f || test "$(head -c 10 $f 2>&1 | wc -c)" = 0 || echo "$f shows something"; done
		for d in bus fs irq driver acpi scsi; do test ! -e $d || test -z "$(ls -A $d)" || echo "$d shows something"; done
		for f in cpuinfo meminfo stat uptime loadavg filesystems version self/status sys/kernel/pid_max; do
		test -s $f || head -c1 $f >/dev/null || echo "$f is missing"; done
		grep -q " /proc/sys ro," /proc/self/mountinfo || echo "/proc/sys can be written"
		umount /proc/cmdline 2>/dev/null && echo unmasked`),
	)
	require.Empty(t, out, "%v", r)
}

// Of /etc only named files are shown, and directories of public data.
func TestScanHost_etcShowsNamedFiles(t *testing.T) {
	t.Parallel()

	etc := t.TempDir()
	for _, name := range []string{
		"ssl/private/key.pem", "ssl/openssl.cnf", "ssl/certs/ca.crt", "pki/private/key", "pki/tls/private/key", "pki/tls/cert.pem",
		"maven/settings.xml", "maven/m2.conf", "java-17-openjdk/management/jmxremote.password", "java-17-openjdk/security/java.security",
		"perl/CPAN/Config.pm", "python3.11/sitecustomize.py", "ca-certificates/secret", "shadow", "passwd", "services",
	} {
		path := filepath.Join(etc, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o644))
	}

	var (
		v     hostView
		shown []string
	)

	require.NoError(t, v.scanEtc(etc, func(path string) error {
		_, err := os.Lstat(path)
		if err == nil {
			shown = append(shown, strings.TrimPrefix(path, etc+"/"))
		}

		return err
	}))
	require.ElementsMatch(t, []string{
		"ssl/openssl.cnf", "ssl/certs", "pki/tls/cert.pem", "maven/m2.conf", "java-17-openjdk/security/java.security",
		"python3.11/sitecustomize.py", "services",
	}, shown)

	s := open(t, Config{})
	out, _ := sh(
		t,
		s,
		newSession(t, s).spec("ls -d /etc/ssl/private /etc/maven/settings.xml /etc/pki/private /etc/ca-certificates 2>/dev/null; id -G"),
	)
	require.Equal(t, fmt.Sprint(guestID), out)
}

// A command has none of the service's groups where the kernel permits to drop them.
func TestNamespaces_dropGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may drop groups")
	}

	before, err := syscall.Getgroups()
	require.NoError(t, err)
	require.NoError(t, syscall.Setgroups([]int{0, 42}))
	t.Cleanup(func() { require.NoError(t, syscall.Setgroups(before)) })

	for _, shared := range []bool{false, true} {
		s := open(t, Config{SharedUser: shared})
		out, _ := sh(t, s, newSession(t, s).spec("grep ^Groups /proc/self/status"))
		require.Equal(t, "Groups:", strings.TrimSpace(out), "shared user: %v", shared)
	}
}

// fillSockets writes into connections without a reader, and says how many bytes they
// took.
func fillSockets() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("no listener:", err)
		return
	}

	total, chunk := 0, make([]byte, 64<<10)

	for range 60 {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break
		}

		accepted, err := listener.Accept()
		if err != nil {
			break
		}

		defer func() { _ = accepted.Close() }()

		for {
			_ = conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			n, err := conn.Write(chunk)
			total += n

			if err != nil {
				break
			}
		}
	}

	fmt.Println(total)
}

// Unread bytes in connections are bounded: they are the kernel's memory, which
// control groups of version 1 count apart.
func TestNamespaces_socketBuffersAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})
	x := newSession(t, s)
	spec := x.attack(t, "sockets")
	out, r := sh(t, s, spec)
	require.True(t, r.Success(), "%v %s", r, out)
	queued, err := strconv.Atoi(out)
	require.NoError(t, err, out)
	require.Less(t, queued, 60*4*socketBuffer, "a pair holds no more than its two buffers")

	spec.Limits.Memory = 128 << 20

	out, r = sh(t, s, spec)
	if s.cgroups.Memory == "" {
		return
	}

	queued, err = strconv.Atoi(out)
	require.NoError(t, err, "%s %v", out, r)
	require.Less(t, queued, 64<<20, "a control group bounds them all together")
}
