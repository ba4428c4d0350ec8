//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/cgroup"
	"everloop/infra/sandbox/forkserver"
	"everloop/infra/sandbox/seccomp"
)

// Who and where a command is in a namespaced sandbox.
const (
	guestRoot = "/workspace"
	guestHome = "/server" // home and working directory of a private command
	guestID   = 1000
	guestName = "agent"
)

const sizeofMountAttr = 32 // struct mount_attr, version 0

// shape is the part of a Spec that a prepared sandbox depends on. Two commands of equal shape can
// use each other's; the rest of a Spec is only needed when the command starts.
type shape struct {
	workspace string // "" of a private one
	uid       int
	memory    int64
	processes int
	fileSize  int64
	openFiles int
	tmp       int64
	cpu       float64
	proxy     bool
}

// groupLimits are the limits that control groups can enforce.
func (sh shape) groupLimits() cgroup.Limits {
	return cgroup.Limits{Memory: sh.memory, Processes: sh.processes, CPU: sh.cpu}
}

// private reports that the command has no workspace.
func (sh shape) private() bool { return sh.workspace == "" }

// home returns the home and working directory of a namespaced sandbox.
func (sh shape) home() string {
	if sh.private() {
		return guestHome
	}

	return guestRoot
}

func shapeOf(s Spec, dedicated bool) shape {
	l := s.Limits.withDefaults()

	uid := s.UID
	if !dedicated {
		uid = os.Geteuid()
	}

	return shape{
		workspace: s.Workspace, uid: uid, memory: l.Memory, processes: l.Processes,
		fileSize: l.FileSize, openFiles: l.OpenFiles, tmp: l.Tmp, cpu: l.CPU,
		proxy: s.Proxy != nil,
	}
}

// etcEntries are the parts of the host's /etc that programs need and that hold
// no secrets; glob patterns. Directories are not shown as a whole, because an
// operator may put keys and passwords in the same directory; the directories of etcDirs
// contain only links and public data.
var etcEntries = []string{
	"bash.bashrc", "debian_version", "gai.conf", "host.conf", "inputrc", "ld.so.cache", "ld.so.conf", "locale.alias", "localtime",
	"magic", "magic.mime", "mailcap", "mime.types", "networks", "os-release", "profile", "protocols", "services", "shells", "timezone",
	"java*/*.cfg", "java*/*.properties", "java*/*.properties.ja", "java*/jfr/*.jfc", "java*/management/management.properties",
	"java*/security/*.certs", "java*/security/*.cfg", "java*/security/*.dat", "java*/security/*.policy", "java*/security/java.security",
	"java*/security/policy/*/*.policy", "maven/m2.conf", "maven/logging/*.properties", "perl/Net/libnet.cfg", "perl/sitecustomize.pl",
	"pki/ca-trust/extracted/pem/*.pem", "pki/tls/cert.pem", "pki/tls/certs/*.crt", "pki/tls/openssl.cnf",
	"python3*/debian_config", "python3*/sitecustomize.py", "ssl/cert.pem", "ssl/openssl.cnf",
}

var etcDirs = []string{"alternatives", "fonts", "ld.so.conf.d", "ssl/certs"}

// Parts of /proc that reveal the host, or lead into its kernel, and that no
// program of an agent needs: files read as empty, directories are. (The kernel's
// own table of mounts, mountinfo, cannot be masked for each process.)
var (
	maskedFiles = []string{
		"cmdline", "config.gz", "consoles", "diskstats", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys",
		"kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "locks", "modules", "mtrr", "partitions", "sched_debug",
		"slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo",
	}
	maskedDirs = []string{"acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "scsi"}
)

// guestFile is a file that every sandbox has with the same content.
type guestFile struct{ path, content string }

// guestFiles are the files of a sandbox whose user has these ids and this home directory.
func guestFiles(uid, gid int, home string) []guestFile {
	return []guestFile{
		{"etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\n%[1]s:x:%[2]d:%[3]d:%[1]s:%[4]s:/bin/bash\n"+
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", guestName, uid, gid, home)},
		{"etc/group", fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", guestName, gid)},
		{"etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n"},
		{"etc/hostname", "sandbox\n"},
		{"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"},
		{"etc/resolv.conf", ""},
	}
}

var guestDevices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// hostView is what of the host's file tree a sandbox shows, looked up once.
type hostView struct {
	dirs  []string          // bound read-only at the same path
	files []string          // likewise
	links map[string]string // made again

	maskedFiles, maskedDirs []string // the maskedFiles and maskedDirs that this kernel has
}

// scanHost finds /usr, the links or directories of a merged or unmerged root,
// the useful parts of /etc, and the extra paths of the configuration.
func scanHost(extra []string) (hostView, error) {
	v := hostView{links: map[string]string{}}
	if err := v.add("/usr"); err != nil {
		return v, err
	}

	for _, path := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if err := v.add(path); err != nil && !os.IsNotExist(err) {
			return v, err
		}
	}

	if err := v.scanEtc("/etc", v.add); err != nil {
		return v, err
	}

	v.scanProc()

	return v, v.scanExtra(extra)
}

// scanProc finds what must be masked.
func (v *hostView) scanProc() {
	v.maskedFiles, v.maskedDirs = existingIn("/proc", maskedFiles), existingIn("/proc", maskedDirs)
}

// add has a path of the host shown at the same place.
func (v *hostView) add(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}

	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}

		v.links[path] = target
	case info.IsDir():
		v.dirs = append(v.dirs, path)
	case info.Mode().IsRegular():
		v.files = append(v.files, path)
	}

	return nil
}

// scanExtra adds the extra paths of the configuration.
func (v *hostView) scanExtra(extra []string) error {
	for _, path := range extra {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return fmt.Errorf("sandbox: extra read-only path %q is not an absolute path below /", path)
		}

		for _, own := range []string{"/tmp", "/proc", "/dev", guestRoot, guestHome} {
			if strings.HasPrefix(filepath.Clean(path)+"/", own+"/") {
				return fmt.Errorf("sandbox: extra read-only path %q is in %s, of which each sandbox has its own", path, own)
			}
		}

		if err := v.add(filepath.Clean(path)); err != nil {
			return fmt.Errorf("sandbox: extra read-only path: %w", err)
		}
	}

	return nil
}

// scanEtc adds the entries of etcEntries and etcDirs that a directory has.
func (v *hostView) scanEtc(etc string, add func(path string) error) error {
	for _, pattern := range etcEntries {
		matches, _ := filepath.Glob(filepath.Join(etc, pattern))
		for _, path := range matches {
			if info, err := os.Lstat(path); err != nil || info.IsDir() {
				continue // named files only
			}

			if err := add(path); err != nil {
				return err
			}
		}
	}

	for _, dir := range etcDirs {
		if err := add(filepath.Join(etc, dir)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}

	return nil
}

// existingIn returns the names that exist in a directory.
func existingIn(dir string, names []string) []string {
	var found []string

	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			found = append(found, name)
		}
	}

	return found
}

// namespaceProgram builds the set-up of a namespaced sandbox. The child starts
// in new user and process namespaces, with all capabilities there, still as
// the service's user on the host.
//
// dedicated reports that the command gets its own user; held, what control
// groups bound.
func namespaceProgram(view hostView, sh shape, dedicated bool, held cgroup.Holds) *program {
	p := &program{clone: unix.CLONE_NEWUSER | unix.CLONE_NEWPID, flags: forkserver.OwnPIDNamespace}

	p.raiseOOMScore()
	p.giveWay(held)
	p.call(
		"new namespaces",
		unix.SYS_UNSHARE,
		num(unix.CLONE_NEWNS|unix.CLONE_NEWIPC|unix.CLONE_NEWUTS|unix.CLONE_NEWNET|unix.CLONE_NEWCGROUP),
	)
	p.call("private mounts", unix.SYS_MOUNT, none, p.str("/"), none, num(unix.MS_REC|unix.MS_PRIVATE), none)

	// The workspace is looked up while the process may still pass through
	// directories that only the service may enter.
	var workspace operand
	if !sh.private() {
		workspace = p.open(
			"open the workspace",
			unix.SYS_OPEN_TREE,
			atCWD,
			p.str(sh.workspace),
			num(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC),
		)
		p.setAttr("restrict the workspace", workspace, "", unix.AT_EMPTY_PATH, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}

	if mayDropGroups(dedicated) {
		p.call("drop groups", unix.SYS_SETGROUPS, none, none)
	}

	p.call("set the group", unix.SYS_SETRESGID, num(guestID), num(guestID), num(guestID))
	p.call("set the user", unix.SYS_SETRESUID, num(guestID), num(guestID), num(guestID))

	p.tree(view, sh.home())
	p.call("make the root read-only", unix.SYS_MOUNT_SETATTR, atCWD, p.str("."), num(unix.AT_RECURSIVE),
		object(p, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}), num(sizeofMountAttr))

	p.mount("proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	p.limitSockets(sh)
	p.mask(view)
	p.mount("tmpfs", "tmp", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d,nr_inodes=65536", sh.tmp))
	p.mount("tmpfs", "dev/shm", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d,nr_inodes=4096", sh.tmp))
	p.mount("devpts", "dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")

	for _, name := range guestDevices {
		p.call("show /dev/"+name, unix.SYS_MOUNT, p.str("/dev/"+name), p.str("dev/"+name), none, num(unix.MS_BIND), none)
	}

	if sh.private() {
		p.mount("tmpfs", guestHome[1:], unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=0700,size=%d,nr_inodes=65536", sh.tmp))
	} else {
		p.call("show the workspace", unix.SYS_MOVE_MOUNT, workspace, p.str(""), atCWD, p.str(guestRoot[1:]),
			num(unix.MOVE_MOUNT_F_EMPTY_PATH))
	}

	p.call("enter the new root", unix.SYS_PIVOT_ROOT, p.str("."), p.str("."))
	p.call("leave the host's root", unix.SYS_UMOUNT2, p.str("."), num(unix.MNT_DETACH))
	p.call("go to the new root", unix.SYS_CHDIR, p.str("/"))
	p.call("set the host name", unix.SYS_SETHOSTNAME, p.str("sandbox"), num(len("sandbox")))
	p.loopback()

	if sh.proxy {
		p.proxy()
	}

	p.limits(sh, held)
	p.dropCapabilities()
	p.dieWithParent()
	p.finish(seccomp.Rule{Inet: true, Netlink: true, Memfd: held.Memory})

	return p
}

// socketBuffer is the largest send or receive buffer, in bytes, that the kernel
// sets for a TCP connection by default.
const socketBuffer = 512 << 10

// limitSockets lowers how much memory connections and shared memory segments
// of the new namespaces may use: it does not count as memory of processes. A kernel
// without one of these settings has its own default.
func (p *program) limitSockets(sh shape) {
	for _, s := range []struct{ path, value string }{
		{"proc/sys/net/ipv4/tcp_rmem", fmt.Sprintf("4096 131072 %d", socketBuffer)},
		{"proc/sys/net/ipv4/tcp_wmem", fmt.Sprintf("4096 16384 %d", socketBuffer)},
		{"proc/sys/kernel/shmall", strconv.FormatInt(sh.tmp/int64(os.Getpagesize()), 10)},
	} {
		fd := p.tryOpen(unix.SYS_OPENAT, atCWD, p.str(s.path), num(unix.O_WRONLY|unix.O_CLOEXEC), none)
		p.try(unix.SYS_WRITE, fd, p.str(s.value), num(len(s.value)))
		p.try(unix.SYS_CLOSE, fd)
		p.slots--
	}
}

// mask hides parts of the new /proc. An empty directory is at hand before /tmp is
// mounted.
func (p *program) mask(view hostView) {
	for _, name := range view.maskedFiles {
		p.call("mask /proc/"+name, unix.SYS_MOUNT, p.str("/dev/null"), p.str("proc/"+name), none, num(unix.MS_BIND), none)
	}

	for _, name := range view.maskedDirs {
		p.call("mask /proc/"+name, unix.SYS_MOUNT, p.str("tmp"), p.str("proc/"+name), none, num(unix.MS_BIND), none)
	}

	p.call("keep /proc/sys apart", unix.SYS_MOUNT, p.str("proc/sys"), p.str("proc/sys"), none, num(unix.MS_BIND), none)
	p.setAttr(
		"make /proc/sys read-only",
		atCWD,
		"proc/sys",
		0,
		unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
	)
}

// tree builds the root directory on a small memory file system over /tmp,
// which no later step needs. home is the user's home directory.
func (p *program) tree(view hostView, home string) {
	p.call("set the file mask", unix.SYS_UMASK, none)
	p.call(
		"mount the root",
		unix.SYS_MOUNT,
		p.str("tmpfs"),
		p.str("/tmp"),
		p.str("tmpfs"),
		num(unix.MS_NOSUID|unix.MS_NODEV),
		p.str("mode=755,size=4m,nr_inodes=1024"),
	)
	p.call("go to the root", unix.SYS_CHDIR, p.str("/tmp"))

	made := map[string]bool{".": true}

	var mkdir func(dir string)

	mkdir = func(dir string) {
		if made[dir] {
			return
		}

		mkdir(filepath.Dir(dir))
		made[dir] = true
		p.call("make "+dir, unix.SYS_MKDIRAT, atCWD, p.str(dir), num(0o755))
	}
	for _, dir := range []string{"etc", "proc", "tmp", "dev/shm", "dev/pts", home[1:]} {
		mkdir(dir)
	}

	for _, path := range view.dirs {
		mkdir(path[1:])
		p.call("show "+path, unix.SYS_MOUNT, p.str(path), p.str(path[1:]), none, num(unix.MS_BIND|unix.MS_REC), none)
	}

	for _, path := range view.files {
		mkdir(filepath.Dir(path[1:]))
		p.file(path[1:], "")
		p.call("show "+path, unix.SYS_MOUNT, p.str(path), p.str(path[1:]), none, num(unix.MS_BIND), none)
	}

	for path, target := range view.links {
		mkdir(filepath.Dir(path[1:]))
		p.symlink(target, path[1:])
	}

	for _, f := range guestFiles(guestID, guestID, home) {
		p.file(f.path, f.content)
	}

	for _, name := range guestDevices {
		p.file("dev/"+name, "")
	}

	p.symlink("/proc/mounts", "etc/mtab")
	p.symlink("pts/ptmx", "dev/ptmx")
	p.symlink("/proc/self/fd", "dev/fd")

	for i, name := range []string{"stdin", "stdout", "stderr"} {
		p.symlink(fmt.Sprintf("/proc/self/fd/%d", i), "dev/"+name)
	}
}

func (p *program) symlink(target, path string) {
	p.call("link "+path, unix.SYS_SYMLINKAT, p.str(target), atCWD, p.str(path))
}

func (p *program) file(path, content string) {
	fd := p.open("make "+path, unix.SYS_OPENAT, atCWD, p.str(path), num(unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC), num(0o644))
	if content != "" {
		p.call("write "+path, unix.SYS_WRITE, fd, p.str(content), num(len(content)))
	}

	p.call("close "+path, unix.SYS_CLOSE, fd)
	p.slots-- // its slot is free again
}

func (p *program) mount(kind, path string, flags int, data string) {
	p.call("mount "+path, unix.SYS_MOUNT, p.str(kind), p.str(path), p.str(kind), num(flags), p.str(data))
}

func (p *program) setAttr(label string, fd operand, path string, flags int, set uint64) {
	p.call(label, unix.SYS_MOUNT_SETATTR, fd, p.str(path), num(flags), object(p, unix.MountAttr{Attr_set: set}), num(sizeofMountAttr))
}

// loopback brings up lo in the new network namespace: the command's own
// servers work, there is no other interface.
func (p *program) loopback() {
	type ifreq struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}

	req := ifreq{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(req.name[:], "lo")

	fd := p.open("open a socket", unix.SYS_SOCKET, num(unix.AF_INET), num(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), none)
	p.call("bring up the loopback interface", unix.SYS_IOCTL, fd, num(unix.SIOCSIFFLAGS), object(p, req))
	p.call("close the socket", unix.SYS_CLOSE, fd)
	p.slots--
}
