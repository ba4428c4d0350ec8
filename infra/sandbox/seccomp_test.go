//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/seccomp"
)

const fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR

// The calls with arguments that the filter decides about, and what they answer.
var decided = []struct {
	name string
	call []uintptr
	want syscall.Errno
}{
	{"persona without address randomisation", []uintptr{unix.SYS_PERSONALITY, 0x0040000}, unix.EPERM},
	{"persona with executable data", []uintptr{unix.SYS_PERSONALITY, 0x0400000}, unix.EPERM},
	{"question for the persona", []uintptr{unix.SYS_PERSONALITY, 0xffffffff}, 0},
	{"persona of Linux", []uintptr{unix.SYS_PERSONALITY, 0}, 0},
	{"listener of a filter", []uintptr{unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER}, unix.EPERM},
	{"terminal input", []uintptr{unix.SYS_IOCTL, 0, unix.TIOCSTI}, unix.EPERM},
	{"project of a file", []uintptr{unix.SYS_IOCTL, 0, fsSetXattr}, unix.EPERM},
	{"user namespace", []uintptr{unix.SYS_CLONE, unix.CLONE_NEWUSER}, unix.EPERM},
	{"vsock", []uintptr{unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT},
	{"vsock pair", []uintptr{unix.SYS_SOCKETPAIR, unix.AF_VSOCK, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT},
	{"later call", []uintptr{1000}, unix.ENOSYS},
}

// Those about sockets of a command with its own network namespace.
var decidedSockets = []struct {
	name                   string
	family, kind, protocol uintptr
	want                   syscall.Errno
}{
	{"TCP", unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0, 0},
	{"TCP by name", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP, 0},
	{"UDP", unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 0, 0},
	{"UDP by name", unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP, 0},
	{"route", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE, 0},
	{"MPTCP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, unix.EPROTONOSUPPORT},
	{"UDP-Lite", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, unix.EPROTONOSUPPORT},
	{"SCTP", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP, unix.EPROTONOSUPPORT},
	{"ping", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, unix.EPROTONOSUPPORT},
	{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, unix.EPROTONOSUPPORT},
	{"audit", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT, unix.EAFNOSUPPORT},
}

// lastTried is past the numbers of today's calls.
const lastTried = 1024

// tryFilter makes every call that is not allowed, with arguments that do no harm,
// and those that the filter decides about; it writes what answered wrongly.
func tryFilter() {
	try := func(name string, want syscall.Errno, call ...uintptr) {
		var a [7]uintptr
		copy(a[:], call)

		pid, _, got := syscall.RawSyscall6(a[0], a[1], a[2], a[3], a[4], a[5], a[6])
		if a[0] == unix.SYS_CLONE && got == 0 && pid == 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}

		if got != want {
			fmt.Printf("WRONG %s: %v, not %v\n", name, got, want)
		}
	}
	skip := slices.Concat(seccomp.Allowed(), seccomp.Conditional())
	refused := seccomp.Refused()

	for nr := range uint32(lastTried) {
		switch {
		case slices.Contains(skip, nr):
		case slices.Contains(refused, nr):
			try(fmt.Sprint("call ", nr), unix.EPERM, uintptr(nr))
		default:
			try(fmt.Sprint("call ", nr), unix.ENOSYS, uintptr(nr))
		}
	}

	for _, c := range decided {
		try(c.name, c.want, c.call...)
	}

	if os.Getenv("OWN_NETWORK") == "" {
		return
	}

	for _, c := range decidedSockets {
		try(c.name, c.want, unix.SYS_SOCKET, c.family, c.kind, c.protocol)
	}
}

// Every number that is not in the list is refused, with the error that programs
// take for "not here".
func TestFilter_refusesWhatIsNotListed(t *testing.T) {
	t.Parallel()
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)

		spec := x.attack(t, "filter")
		if s.Level() == Namespaced {
			spec.Env["OWN_NETWORK"] = "1"
		}

		out, r := sh(t, s, spec)
		require.True(t, r.Success(), "%v %s", r, out)
		require.NotContains(t, out, "WRONG")
	})
}

// The programs that agents use work under the filter.
func TestFilter_programsWork(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})

	programs := []struct{ program, script, want string }{
		{"bash", `for i in 1 2 3; do (echo $i) & done | sort; wait; ulimit -n 100; echo $(ulimit -n)`, "1\n2\n3\n100"},
		{"git", `git init -q r && cd r && git config user.email a@b.c && git config user.name A && echo x >f && git add f &&
			git commit -qm one && cd .. && git clone -q r c && git -C c gc -q && git -C c log --format=%s`, "one"},
		{"rg", `mkdir d; echo needle >d/f; rg --no-heading needle d`, "d/f:needle"},
		{"perl", `perl -e 'print join(",", map { $_ * 2 } 1..3), "\n"'`, "2,4,6"},
		{"python3", `python3 - <<'X'
import concurrent.futures, multiprocessing, socket, sqlite3, subprocess, tempfile, threading, asyncio
s = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b"tcp"), daemon=True).start()
print(socket.create_connection(s.getsockname()).recv(9).decode())
db = sqlite3.connect("t.db"); db.execute("create table t (a)"); db.commit()
with multiprocessing.get_context("fork").Pool(2) as pool: print(sum(pool.map(abs, [-1, -2])))
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout.strip())
async def run(): return await (await asyncio.create_subprocess_exec("true")).wait()
print(asyncio.run(run()) == 0)
X`, "tcp\n3\nchild\nTrue"},
		{
			"node", `node -e '
const { Worker } = require("worker_threads"), { execSync } = require("child_process"), http = require("http"), fs = require("fs");
fs.writeFileSync("f", "file"); console.log(fs.readFileSync("f", "utf8"), execSync("echo child").toString().trim());
new Worker("require(\"worker_threads\").parentPort.postMessage(\"thread\")", { eval: true }).on("message", (m) => { console.log(m);
const server = http.createServer((q, a) => a.end("http")).listen(0, "127.0.0.1", () =>
  http.get({ port: server.address().port, host: "127.0.0.1" }, (a) =>
  a.on("data", (d) => { console.log(String(d)); server.close(); }).resume())); });'`,
			"file child\nthread\nhttp",
		},
		{"npm", `npm init -y >/dev/null && npm pkg get version`, `"1.0.0"`},
		{"gcc", `printf 'int puts(const char*); int main(){ puts("compiled"); }' >m.c && gcc m.c -o m && ./m`, "compiled"},
		{"make", `printf 'all:\n\t@echo made\n' >Makefile && make -j2`, "made"},
		{"java", `java -XX:TieredStopAtLevel=1 -Xmx64m -XX:+UseSerialGC -version 2>&1 | head -c 7`, "openjdk"},
		{"tar", `mkdir t; echo x >t/f; tar czf t.tgz t && rm -r t && tar xzf t.tgz && cat t/f`, "x"},
		{
			"go",
			`export PATH=$PATH:/usr/local/go/bin GOCACHE=$PWD/cache GOFLAGS=-mod=mod
			printf 'package main\nfunc main() { println("built") }\n' >m.go &&
			go build -o g m.go && ./g 2>&1`,
			"built",
		},
	}
	for _, p := range programs {
		t.Run(p.program, func(t *testing.T) {
			t.Parallel()

			if testing.Short() && p.program == "go" {
				t.Skip("builds the runtime")
			}

			x := newSession(t, s)
			if _, r := sh(t, s, x.spec("export PATH=$PATH:/usr/local/go/bin; command -v "+p.program)); !r.Success() {
				t.Skip("not on this machine")
			}

			out, r := sh(t, s, x.spec(p.script))
			require.True(t, r.Success(), "%v %s", r, out)
			require.Equal(t, p.want, out)
		})
	}
}
