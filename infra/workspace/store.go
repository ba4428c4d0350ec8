//go:build linux

package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/sharedfs"
)

// GuestRoot is the path of the workspace in the sandbox; paths below it are accepted everywhere.
const GuestRoot = "/workspace"

// tempPrefix marks temporary entries; listings skip them.
const tempPrefix = ".everloop-tmp-"

// stagingDir is in the store's root: files are written there, where commands have no access, and
// renamed into place when complete. No session id can be equal to it.
const stagingDir = ".everloop-staging"

// Store contains the workspaces of all sessions in one directory.
type Store struct {
	root   string
	limits Limits
	locks  *locks                                        // of conditional writes
	admit  func(context.Context, domain.SessionID) error // see AdmitWrites; nil: all
	usage  usage

	look   sync.Once
	caches bool // the file system caches attributes: see sharedfs.CachesAttributes
}

// New returns a Store in a directory (DATA_DIR/workspace), which is created with the first
// workspace. Its workspaces are unlimited.
func New(root string) *Store { return NewLimited(root, Limits{}) }

// NewLimited is New with limits, which apply to every write by a Workspace.
func NewLimited(root string, limits Limits) *Store {
	return &Store{root: root, limits: limits, locks: newLocks(root)}
}

// staging opens the staging directory.
func (s *Store) staging() (fd int, err error) {
	dir := filepath.Join(s.root, stagingDir)

	fd, err = openRoot(dir)
	if errors.Is(err, unix.ENOENT) {
		if err := s.create(stagingDir, -1); err != nil {
			return -1, err
		}

		fd, err = openRoot(dir)
	}

	if err != nil {
		return -1, fmt.Errorf("workspace: staging: %w", err)
	}

	return fd, nil
}

var sessionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// Workspace is the directory of one session. It is safe for concurrent use, including concurrent
// commands.
type Workspace struct {
	store *Store
	host  string
	uid   int // owner of new entries; -1: the service's user
	root  *os.File
}

// Open returns a session's workspace, and creates it on first use with mode 0700. uid is the
// session's host user, the owner of all entries; 0, or a service that is not root: the service's
// own user. Close frees its descriptor before the garbage collector would.
func (s *Store) Open(ctx context.Context, sessionID domain.SessionID, uid int) (*Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	host, err := s.path(sessionID)
	if err != nil {
		return nil, err
	}

	w := &Workspace{store: s, host: host, uid: -1}
	if uid > 0 && os.Geteuid() == 0 {
		w.uid = uid
	}

	fd, err := openRoot(host)
	if errors.Is(err, unix.ENOENT) {
		// Others can traverse but not list: at level 1 commands run as other users.
		if err := os.MkdirAll(s.root, 0o711); err != nil {
			return nil, fmt.Errorf("workspace: %w", err)
		}

		if err := s.create(string(sessionID), w.uid); err != nil {
			return nil, err
		}

		fd, err = openRoot(host)
	}

	if err != nil {
		return nil, fmt.Errorf("workspace: open %s: %w", sessionID, err)
	}

	w.root = os.NewFile(uintptr(fd), "workspace")

	return w, nil
}

func openRoot(host string) (int, error) {
	return unix.Open(host, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// create creates a directory of the store under a temporary name first, so that no other process
// sees it with the wrong owner. uid is the owner, or -1 for the service.
func (s *Store) create(name string, uid int) error {
	temp, err := os.MkdirTemp(s.root, tempPrefix)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}

	if uid >= 0 {
		if err := os.Chown(temp, uid, uid); err != nil {
			_ = os.Remove(temp)
			return fmt.Errorf("workspace: give %s to user %d: %w", name, uid, err)
		}
	}

	if err := s.publish(temp, name); err != nil {
		_ = os.Remove(temp)

		if !errors.Is(err, unix.EEXIST) { // EEXIST: created concurrently
			return fmt.Errorf("workspace: make %s: %w", name, err)
		}
	}

	return nil
}

// publish renames a new directory of the root, if the name is free.
func (s *Store) publish(temp, name string) error {
	root, err := openRoot(s.root)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(root) }()

	return s.nameDirectory(root, path.Base(temp), root, name)
}

// nameDirectory renames a new directory to a free name, or returns EEXIST. Where the
// file system cannot rename without replacing, rename(2) replaces an empty directory: a
// concurrent call that has opened this directory would get ENOENT for everything in it.
// The lock excludes other calls of the service there, not commands in the sandbox.
func (s *Store) nameDirectory(fromDir int, temp string, dir int, name string) error {
	err := sharedfs.RenameInOneStep(fromDir, temp, dir, name)
	if !errors.Is(err, sharedfs.ErrUnsupported) {
		return err
	}

	release, err := s.locks.hold(place{dir, name})
	if err != nil {
		return err
	}
	defer release()

	if s.cached(dir) {
		var st unix.Stat_t
		if err := sharedfs.Stat(dir, "", &st, true); err != nil {
			return err
		}
	}

	return sharedfs.RenameNoReplace(-1, fromDir, temp, dir, name)
}

// cached reports whether changes of other machines become visible only after the attribute cache
// expires or is revalidated. fd is any descriptor in the store.
func (s *Store) cached(fd int) bool {
	s.look.Do(func() { s.caches = sharedfs.CachesAttributes(fd) })
	return s.caches
}

func (s *Store) path(sessionID domain.SessionID) (string, error) {
	if !sessionName.MatchString(string(sessionID)) {
		return "", domain.Newf(domain.Malformed, CodeBadPath, "this is not a session id")
	}

	return filepath.Join(s.root, string(sessionID)), nil
}

// Remove deletes a session's workspace recursively. No command of the session may be running.
func (s *Store) Remove(ctx context.Context, sessionID domain.SessionID) error {
	if _, err := s.path(sessionID); err != nil {
		return err
	}

	fd, err := unix.Open(s.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}

	defer func() { _ = unix.Close(fd) }()

	if err := removeAll(ctx, fd, string(sessionID)); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("workspace: remove %s: %w", sessionID, err)
	}

	return nil
}

// Lacks reports whether a clean path below the root, or the whole workspace, does not exist, with
// a single lstat. It can be wrong in one way only: false for a path that Open would reject.
func (s *Store) Lacks(sessionID domain.SessionID, rel string) bool {
	host, err := s.path(sessionID)
	if err != nil {
		return false
	}

	var st unix.Stat_t

	err = unix.Lstat(host+"/"+rel, &st)

	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// HostPath returns the directory on the host, for the sandbox.
func (w *Workspace) HostPath() string { return w.host }

// Close frees the descriptor.
func (w *Workspace) Close() error { return w.root.Close() }

// Clean converts a path of a client or model ("a/b", "./a", "/workspace/a", at level 1 also the
// host's path) to a path relative to the root; the root is ".". It rejects paths that leave the
// workspace lexically; the kernel checks links at the access.
func (w *Workspace) Clean(p string) (string, error) { return clean(p, GuestRoot, w.host) }

// Clean is Workspace.Clean without an open workspace.
func Clean(p string) (string, error) { return clean(p, GuestRoot) }

// clean accepts absolute paths below the given roots.
func clean(p string, roots ...string) (string, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", domain.Newf(domain.Malformed, CodeBadPath, "the path holds a zero byte")
	}

	shown := p
	if path.IsAbs(p) {
		p = path.Clean(p)

		rel, ok := "", false
		for _, root := range roots {
			if rel, ok = within(root, p); ok {
				break
			}
		}

		if !ok {
			return "", outside(shorten(shown))
		}

		p = rel
	}

	p = path.Clean(p)
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", outside(shorten(shown))
	}

	if len(p) >= unix.PathMax {
		return "", explain(shorten(shown), unix.ENAMETOOLONG)
	}

	for name := range strings.SplitSeq(p, "/") {
		if len(name) > 255 {
			return "", explain(shorten(shown), unix.ENAMETOOLONG)
		}
		// Such a file would be hidden, and deleted later.
		if strings.HasPrefix(name, tempPrefix) {
			return "", domain.Newf(domain.Malformed, CodeBadPath, "names that begin with %s are the service's own", tempPrefix)
		}
	}

	return p, nil
}

func within(root, p string) (string, bool) {
	rel, ok := strings.CutPrefix(p, root)
	if !ok || rel != "" && rel[0] != '/' {
		return "", false
	}

	return "." + rel, true
}

// shorten limits a path for error messages.
func shorten(p string) string {
	if len(p) > 200 {
		return strings.ToValidUTF8(p[:200], "") + "…"
	}

	return p
}
