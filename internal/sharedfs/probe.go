//go:build linux

package sharedfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Level is the severity of a finding.
type Level int

// Levels of findings: with Fail, workspaces do not work.
const (
	OK Level = iota
	Info
	Warn
	Fail
)

// Finding is one result of Probe.
type Finding struct {
	About  string // "fs", "names", "locks", "owners" or "clock"
	Level  Level
	Detail string
	Hint   string // the remedy; empty: none needed
}

// Summary merges findings: the worst level, all details and all hints.
func Summary(findings []Finding) (worst Level, detail, hint string) {
	var details, hints []string

	for _, f := range findings {
		worst = max(worst, f.Level)

		details = append(details, f.Detail)
		if f.Hint != "" {
			hints = append(hints, f.About+": "+f.Hint)
		}
	}

	return worst, strings.Join(details, "; "), strings.Join(hints, "; ")
}

// probePrefix marks the directories of probes. No session id starts with it.
const probePrefix = ".everloop-probe-"

// abandoned is the age at which a probe's directory is a leftover of a dead process.
const abandoned = time.Hour

// probing serialises probes: an unresponsive server blocks at most one goroutine.
var probing = make(chan struct{}, 1)

// Probe tests in a directory the operations that workspaces need of a file system: renaming
// without replacing, locking, and changing owners; and compares the clocks of its server and of
// this machine. uid is the user for the owner test; 0 skips it. It removes its files. A file
// system that does not respond in time is an error.
func Probe(ctx context.Context, dir string, uid int) ([]Finding, error) {
	select {
	case probing <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("an earlier look at the file system has not ended: %w", ctx.Err())
	}

	type outcome struct {
		findings []Finding
		err      error
	}

	done := make(chan outcome, 1)

	go func() {
		defer func() { <-probing }()

		findings, err := probe(dir, uid)
		done <- outcome{findings, err}
	}()

	select {
	case o := <-done:
		return o.findings, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the file system does not answer: %w", ctx.Err())
	}
}

// prober runs the tests in its own directory.
type prober struct {
	fd    int
	path  string
	mount mount
}

// probe runs all tests in a new directory, which it removes.
func probe(dir string, uid int) (findings []Finding, err error) {
	removeAbandoned(dir)

	temp, err := os.MkdirTemp(dir, probePrefix)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()

	fd, err := unix.Open(temp, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: temp, Err: err}
	}

	defer func() { _ = unix.Close(fd) }()

	p := prober{fd: fd, path: temp}
	if p.mount, err = mountOf(fd); err != nil {
		return nil, err
	}

	findings = append(findings, p.kind(), p.renames(), p.locks())
	if uid > 0 {
		findings = append(findings, p.owners(uid))
	}

	return append(findings, p.clock()), nil
}

func removeAbandoned(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
	for _, path := range left {
		if st, err := os.Lstat(path); err == nil && time.Since(st.ModTime()) > abandoned {
			_ = os.RemoveAll(path)
		}
	}
}

// kind returns the type of the file system, and how long its clients cache.
func (p *prober) kind() Finding {
	if CachesAttributes(p.fd) {
		return p.mount.caching()
	}

	name := p.mount.kind
	if name == "" {
		name = "unknown"
	}

	return Finding{About: "fs", Detail: name}
}

// renames tests whether names are created and exchanged atomically.
func (p *prober) renames() Finding {
	f := Finding{About: "names"}
	if err := p.tryRenames(); err != nil {
		f.Level, f.Detail = Fail, "a file cannot be renamed: "+err.Error()
		f.Hint = "put the directory on another file system: no file can be written to a workspace here"

		return f
	}

	one, other := p.path+"/one", p.path+"/other"

	err := errors.Join(os.WriteFile(one, nil, 0o600), os.WriteFile(other, nil, 0o600))
	if err == nil {
		err = Exchange(p.fd, "one", p.fd, "other")
	}

	if err == nil {
		err = RenameInOneStep(p.fd, "one", p.fd, "free")
	}

	switch {
	case err == nil:
		f.Detail = "names are given and exchanged in one step"
	case !errors.Is(err, ErrUnsupported):
		f.Level, f.Detail = Fail, "a file cannot be renamed: "+err.Error()
		f.Hint = "put the directory on another file system: no file can be written to a workspace here"
	case Link(p.fd, "other", p.fd, "link") == nil:
		f.Level, f.Detail = Info, "in steps, by hard links"
		f.Hint = "a file that a command moves to a name while a tool replaces it on a condition may be lost; " +
			"ext4, xfs, btrfs and tmpfs do it in one step"
	default:
		f.Level, f.Detail = Warn, "in steps, without hard links"
		f.Hint = "a crash in the middle of a write can leave an empty file: use a file system with hard links " +
			"(permit them, if its mount options forbid them)"
	}

	return f
}

// tryRenames renames as workspaces do, possibly in several steps.
func (p *prober) tryRenames() error {
	from := p.path + "/from"
	if err := os.WriteFile(from, []byte("new"), 0o600); err != nil {
		return err
	}

	if err := RenameNoReplace(-1, p.fd, "from", p.fd, "to"); err != nil {
		return err
	}

	if err := os.WriteFile(from, []byte("newer"), 0o600); err != nil {
		return err
	}

	if err := RenameNoReplace(-1, p.fd, "from", p.fd, "to"); !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("a name that was taken was given again (%v)", err) //nolint:errorlint // may be nil
	}

	content, err := os.ReadFile(p.path + "/to")
	if err == nil && string(content) != "new" {
		err = errors.New("what was there was replaced")
	}

	return err
}

// locks tests whether a lock excludes a second open file.
func (p *prober) locks() Finding {
	f := Finding{About: "locks", Detail: "file locks work"}

	hint := "two writers could replace each other's files: permit file locks"
	if p.mount.nfs() {
		hint = "mount it with version 4.1 or later, and without nolock and local_lock"
	}

	err := p.tryLocks()

	here := p.mount.value("local_lock", "none")
	switch {
	case err != nil:
		f.Level, f.Detail, f.Hint = Fail, "file locks do not work: "+err.Error(), hint
	case p.mount.has("nolock") || here != "none" && here != "flock":
		f.Level, f.Detail, f.Hint = Warn, "file locks hold on this machine alone", hint
	}

	return f
}

// tryLocks returns an error unless a lock of one open file excludes another.
func (p *prober) tryLocks() error {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_CLOEXEC

	var fds [2]int
	for i := range fds {
		fd, err := unix.Openat(p.fd, "lock", flags, 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()

		fds[i] = fd
	}

	if err := tryLock(fds[0], unix.F_WRLCK); err != nil {
		return err
	}

	err := tryLock(fds[1], unix.F_WRLCK)
	if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("a lock that is held was given again (%v)", err) //nolint:errorlint // may be nil
	}

	if err := tryLock(fds[0], unix.F_UNLCK); err != nil {
		return err
	}

	return tryLock(fds[1], unix.F_WRLCK)
}

// tryLock locks the first byte of an open file, without blocking.
func tryLock(fd int, kind int16) error {
	if simulated().NoLocks {
		return unix.ENOLCK
	}

	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Len: 1})
}

// owners tests changing a file's owner to the user of a session.
func (p *prober) owners(uid int) Finding {
	f := Finding{About: "owners", Detail: "files can be given to other users"}
	file := p.path + "/owner"

	err := os.WriteFile(file, nil, 0o600)
	if err == nil {
		err = chown(file, uid)
	}

	var st unix.Stat_t
	if err == nil {
		err = Stat(unix.AT_FDCWD, file, &st, true)
	}

	if err == nil && int(st.Uid) != uid {
		err = fmt.Errorf("it went to user %d", st.Uid)
	}

	if err == nil && p.mount.fuse() && !p.mount.has("allow_other") {
		err = errors.New("the mount is not for other users")
	}

	if err == nil {
		return f
	}

	f.Level, f.Detail = Fail, fmt.Sprintf("a file cannot be given to user %d: %v", uid, err)
	switch {
	case errors.Is(err, unix.EINVAL): // then the sandbox runs commands as the service's user
		f.Level, f.Hint = Info, "sessions share the service's user: map more users into its user namespace for a user each"
	case p.mount.nfs():
		f.Hint = "export it with no_root_squash, and with users as numbers"
	case p.mount.fuse():
		f.Hint = "mount it as root, with allow_other"
	default:
		f.Hint = "let root change owners there, or start Everloop as an ordinary user"
	}

	return f
}

func chown(path string, uid int) error {
	if simulated().KeepsOwners {
		return unix.EPERM
	}

	return os.Chown(path, uid, uid)
}

// clockDifference is the maximum difference of a file server's clock from this machine's: half of
// the time for which snapshots do not trust a changed file.
const clockDifference = time.Second

// clock compares the time of a new file with this machine's.
func (p *prober) clock() Finding {
	f := Finding{About: "clock"}
	before := time.Now()
	file := p.path + "/clock"
	err := os.WriteFile(file, []byte("x"), 0o600)
	after := time.Now()

	var st unix.Stat_t
	if err == nil {
		err = Stat(unix.AT_FDCWD, file, &st, true)
	}

	if err != nil {
		return Finding{
			About:  f.About,
			Level:  Fail,
			Detail: "the time of a new file cannot be read: " + err.Error(),
			Hint:   "repair the file system",
		}
	}

	written := time.Unix(st.Ctim.Unix()).Add(simulated().ClockAhead)
	differs := time.Duration(0)

	switch {
	case written.After(after):
		differs = written.Sub(after)
	case written.Before(before):
		differs = before.Sub(written)
	}

	f.Detail = "times of files agree with this machine's clock"
	if differs > clockDifference {
		f.Level = Warn
		f.Detail = fmt.Sprintf("times of files differ by %s from this machine's clock", differs.Round(100*time.Millisecond))
		f.Hint = "synchronise the clocks of the file server and of all machines (NTP): a snapshot can miss what was written just before it"
	}

	return f
}
