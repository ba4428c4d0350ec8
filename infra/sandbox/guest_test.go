//go:build linux

package sandbox

import (
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The test binary plays three parts: the tests; inside a sandbox, a hostile
// program (copied into the workspace); and a service that gets killed.
func TestMain(m *testing.M) {
	// Another user's service may not fill the host's process table, whatever
	// these tests let loose.
	if os.Getenv("SANDBOX_TEST_BOUNDED") != "" {
		limit := unix.Rlimit{Cur: 600, Max: 600}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
			panic(err)
		}
	}

	switch os.Getenv("SANDBOX_TEST_PART") {
	case "guest":
		guest(os.Args[1:])
		return
	case "service":
		doomedService()
		return
	}

	os.Exit(m.Run())
}

// attack returns a command that runs this binary as the hostile program.
func (x session) attack(t testing.TB, args ...string) Spec {
	t.Helper()

	data, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)

	path := x.dir + "/attack"
	require.NoError(t, os.WriteFile(path, data, 0o755))
	require.NoError(t, os.Chmod(path, 0o755))

	spec := x.spec("")

	spec.Argv = append([]string{"sh", "-c", `exec ./attack "$@"`, "attack"}, args...)
	spec.Env = map[string]string{"SANDBOX_TEST_PART": "guest"}

	return spec
}

func guest(args []string) {
	switch args[0] {
	case "calls":
		attackCalls()
	case "sockets":
		fillSockets()
	case "filter":
		tryFilter()
	case "dial":
		for _, target := range args[1:] {
			network, address, _ := strings.Cut(target, "=")

			conn, err := net.DialTimeout(network, address, 2*time.Second)
			if err == nil && network == "udp" {
				_, err = conn.Write([]byte("x"))
			}

			if err == nil {
				fmt.Println("REACHED", target)
				continue
			}

			fmt.Println("no", target, err)
		}
	case "allocate":
		b := make([]byte, 1<<30)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}

		fmt.Println("ALLOCATED", len(b))
	}
}

// attackCalls tries system calls that lead out, one line each.
func attackCalls() {
	name := unsafe.Pointer(unsafe.StringData("x\x00"))
	dot := unsafe.Pointer(unsafe.StringData("/\x00"))
	socket := func(domain, kind, proto int) []uintptr {
		return []uintptr{unix.SYS_SOCKET, uintptr(domain), uintptr(kind), uintptr(proto)}
	}
	attr := make([]byte, 256)
	calls := map[string][]uintptr{
		"unshare user":   {unix.SYS_UNSHARE, unix.CLONE_NEWUSER},
		"unshare net":    {unix.SYS_UNSHARE, unix.CLONE_NEWNET},
		"clone user":     {unix.SYS_CLONE, unix.CLONE_NEWUSER | uintptr(syscall.SIGCHLD)},
		"clone3":         {unix.SYS_CLONE3, uintptr(unsafe.Pointer(&attr[0])), 88},
		"setns":          {unix.SYS_SETNS, 0, 0},
		"mount":          {unix.SYS_MOUNT, uintptr(name), uintptr(dot), uintptr(name), 0, 0},
		"remount":        {unix.SYS_MOUNT, 0, uintptr(dot), 0, unix.MS_REMOUNT | unix.MS_BIND, 0},
		"umount":         {unix.SYS_UMOUNT2, uintptr(dot), 2},
		"pivot_root":     {unix.SYS_PIVOT_ROOT, uintptr(dot), uintptr(dot)},
		"chroot":         {unix.SYS_CHROOT, uintptr(dot)},
		"open_tree":      {unix.SYS_OPEN_TREE, ^uintptr(99), uintptr(dot), 1},
		"fsopen":         {unix.SYS_FSOPEN, uintptr(unsafe.Pointer(unsafe.StringData("tmpfs\x00"))), 0},
		"ptrace parent":  {unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(os.Getppid())},
		"read memory":    {unix.SYS_PROCESS_VM_READV, uintptr(os.Getppid()), 0, 0, 0, 0},
		"io_uring":       {unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&attr[0]))},
		"bpf":            {unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr[0])), 64},
		"perf":           {unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr[0])), 0, ^uintptr(0), ^uintptr(0), 0},
		"userfaultfd":    {unix.SYS_USERFAULTFD, 1},
		"keyctl":         {unix.SYS_KEYCTL, 0, ^uintptr(2), 0},
		"add_key":        {unix.SYS_ADD_KEY, uintptr(name), uintptr(name), 0, 0, 0},
		"syslog":         {unix.SYS_SYSLOG, 10, 0, 0},
		"reboot":         {unix.SYS_REBOOT, 0, 0, 0},
		"swapon":         {unix.SYS_SWAPON, uintptr(name), 0},
		"by handle":      {unix.SYS_OPEN_BY_HANDLE_AT, 0, uintptr(unsafe.Pointer(&attr[0])), 0},
		"make device":    {unix.SYS_MKNODAT, ^uintptr(99), uintptr(name), unix.S_IFBLK | 0o666, uintptr(unix.Mkdev(254, 0))},
		"char device":    {unix.SYS_MKNODAT, ^uintptr(99), uintptr(name), unix.S_IFCHR | 0o666, uintptr(unix.Mkdev(1, 1))},
		"become root":    {unix.SYS_SETUID, 0},
		"set time":       {unix.SYS_CLOCK_SETTIME, 0, uintptr(unsafe.Pointer(&attr[0]))},
		"vsock":          socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"packet":         socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"alg":            socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"audit netlink":  socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
		"raw ip":         socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"terminal input": {unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(name)},
	}

	var names []string
	for n := range calls {
		names = append(names, n)
	}

	sort.Strings(names)

	for _, n := range names {
		var a [7]uintptr
		copy(a[:], calls[n])

		r, _, errno := syscall.RawSyscall6(a[0], a[1], a[2], a[3], a[4], a[5], a[6])
		if n == "clone user" && errno == 0 && r == 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}

		if errno == 0 {
			fmt.Println("SUCCEEDED", n)
			continue
		}

		fmt.Printf("%s: %v\n", n, errno)
	}
}
