//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/forkserver"
)

// Who and where a command is in a namespaced sandbox.
const (
	guestRoot = "/workspace"
	guestID   = 1000
	guestName = "agent"
)

const sizeofMountAttr = 32 // struct mount_attr, version 0

// shape is what a prepared sandbox is made for. Two commands of equal shape can
// use each other's; everything else of a Spec comes only when the command starts.
type shape struct {
	workspace string
	uid       int
	memory    int64
	processes int
	fileSize  int64
	openFiles int
	tmp       int64
	cpu       float64
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
	}
}

// etcEntries are the parts of the host's /etc that programs need and that hold
// no secret; glob patterns.
var etcEntries = []string{
	"alternatives", "bash.bashrc", "ca-certificates", "debian_version", "fonts", "gai.conf", "host.conf", "inputrc",
	"java*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic", "magic.mime",
	"mailcap", "maven", "mime.types", "networks", "os-release", "perl", "pki", "profile", "protocols", "python3*",
	"services", "shells", "ssl", "timezone",
}

var guestFiles = []struct{ path, content string }{
	{"etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\n%[1]s:x:%[2]d:%[2]d:%[1]s:%[3]s:/bin/bash\n"+
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", guestName, guestID, guestRoot)},
	{"etc/group", fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", guestName, guestID)},
	{"etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n"},
	{"etc/hostname", "sandbox\n"},
	{"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"},
	{"etc/resolv.conf", ""},
}

var guestDevices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// hostView is what of the host's file tree a sandbox shows, looked up once.
type hostView struct {
	dirs  []string          // bound read-only at the same path
	files []string          // likewise
	links map[string]string // made again
}

// scanHost finds /usr, the links or directories of a merged or unmerged root,
// the useful parts of /etc, and the extra paths of the configuration.
func scanHost(extra []string) (hostView, error) {
	v := hostView{links: map[string]string{}}
	add := func(path string) error {
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
	if err := add("/usr"); err != nil {
		return v, err
	}
	for _, path := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if err := add(path); err != nil && !os.IsNotExist(err) {
			return v, err
		}
	}
	for _, pattern := range etcEntries {
		matches, _ := filepath.Glob("/etc/" + pattern)
		for _, path := range matches {
			if err := add(path); err != nil {
				return v, err
			}
		}
	}
	for _, path := range extra {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return v, fmt.Errorf("sandbox: extra read-only path %q is not an absolute path below /", path)
		}
		for _, own := range []string{"/tmp", "/proc", "/dev", guestRoot} {
			if strings.HasPrefix(filepath.Clean(path)+"/", own+"/") {
				return v, fmt.Errorf("sandbox: extra read-only path %q is in %s, of which each sandbox has its own", path, own)
			}
		}
		if err := add(filepath.Clean(path)); err != nil {
			return v, fmt.Errorf("sandbox: extra read-only path: %w", err)
		}
	}
	return v, nil
}

// namespaceProgram builds the set-up of a namespaced sandbox. The child starts
// in new user and process namespaces, with all capabilities there, still as
// the service's user on the host.
//
// dedicated says that the command gets a user of its own; memoryHeld, that a
// cgroup bounds its memory.
func namespaceProgram(view hostView, sh shape, dedicated, memoryHeld bool) *program {
	p := &program{clone: unix.CLONE_NEWUSER | unix.CLONE_NEWPID, flags: forkserver.OwnPIDNamespace}

	p.raiseOOMScore()
	p.call("new namespaces", unix.SYS_UNSHARE, num(unix.CLONE_NEWNS|unix.CLONE_NEWIPC|unix.CLONE_NEWUTS|unix.CLONE_NEWNET|unix.CLONE_NEWCGROUP))
	p.call("private mounts", unix.SYS_MOUNT, none, p.str("/"), none, num(unix.MS_REC|unix.MS_PRIVATE), none)

	// The workspace is looked up while the process may still pass through
	// directories that only the service may enter.
	workspace := p.open("open the workspace", unix.SYS_OPEN_TREE, atCWD, p.str(sh.workspace), num(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
	p.setAttr("restrict the workspace", workspace, "", unix.AT_EMPTY_PATH, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)

	if dedicated {
		p.call("drop groups", unix.SYS_SETGROUPS, none, none)
	}
	p.call("set the group", unix.SYS_SETRESGID, num(guestID), num(guestID), num(guestID))
	p.call("set the user", unix.SYS_SETRESUID, num(guestID), num(guestID), num(guestID))

	p.tree(view)
	p.call("make the root read-only", unix.SYS_MOUNT_SETATTR, atCWD, p.str("."), num(unix.AT_RECURSIVE),
		object(p, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}), num(sizeofMountAttr))

	p.mount("proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	p.mount("tmpfs", "tmp", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d,nr_inodes=65536", sh.tmp))
	p.mount("tmpfs", "dev/shm", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d,nr_inodes=4096", sh.tmp))
	p.mount("devpts", "dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	for _, name := range guestDevices {
		p.call("show /dev/"+name, unix.SYS_MOUNT, p.str("/dev/"+name), p.str("dev/"+name), none, num(unix.MS_BIND), none)
	}
	p.call("show the workspace", unix.SYS_MOVE_MOUNT, workspace, p.str(""), atCWD, p.str(guestRoot[1:]), num(unix.MOVE_MOUNT_F_EMPTY_PATH))
	p.call("enter the new root", unix.SYS_PIVOT_ROOT, p.str("."), p.str("."))
	p.call("leave the host's root", unix.SYS_UMOUNT2, p.str("."), num(unix.MNT_DETACH))
	p.call("go to the new root", unix.SYS_CHDIR, p.str("/"))
	p.call("set the host name", unix.SYS_SETHOSTNAME, p.str("sandbox"), num(len("sandbox")))
	p.loopback()

	p.limits(sh, memoryHeld)
	p.dropCapabilities()
	p.finish(ownNetwork)
	return p
}

// tree builds the root directory on a small memory file system over /tmp,
// which nothing that follows needs.
func (p *program) tree(view hostView) {
	p.call("set the file mask", unix.SYS_UMASK, none)
	p.call("mount the root", unix.SYS_MOUNT, p.str("tmpfs"), p.str("/tmp"), p.str("tmpfs"), num(unix.MS_NOSUID|unix.MS_NODEV), p.str("mode=755,size=4m,nr_inodes=1024"))
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
	for _, dir := range []string{"etc", "proc", "tmp", "dev/shm", "dev/pts", guestRoot[1:]} {
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
	for _, f := range guestFiles {
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
// servers work, nothing else is there.
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
