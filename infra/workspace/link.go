//go:build linux

package workspace

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// Resolve returns the path of a path's target, free of links.
func (w *Workspace) Resolve(p string) (string, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return "", err
	}

	fd, _, err := w.look(rel)
	if err != nil {
		return "", explain(p, err)
	}

	defer func() { _ = unix.Close(fd) }()

	root, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(w.root.Fd())))
	if err != nil {
		return "", explain(p, err)
	}

	found, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", explain(p, err)
	}

	below, ok := within(root, found)
	if !ok { // moved or deleted during the lookup
		return "", explain(p, unix.ENOENT)
	}

	return path.Clean(below), nil
}

// LinkTo creates a link to an existing path in a directory, which it creates when missing. The
// link is relative, so that it resolves in the sandbox and on the host. It returns the link's
// path.
func (w *Workspace) LinkTo(source, dir, name string) (string, error) {
	target, err := w.Clean(source)
	if err != nil {
		return "", err
	}

	fd, _, err := w.look(target)
	if err != nil {
		return "", explain(source, err)
	}

	_ = unix.Close(fd)

	at, err := w.Clean(dir)
	if err != nil {
		return "", err
	}

	if err := w.mkdirAll(at); err != nil {
		return "", explain(dir, err)
	}
	// A link in the directory's path would change the meaning of the relative target.
	holder, err := w.openAt(at, unix.O_PATH|unix.O_DIRECTORY, inside|unix.RESOLVE_NO_SYMLINKS)
	if err == unix.ELOOP {
		return "", domain.Newf(domain.Invalid, CodeNotDirectory, "%s is a link, or a part of it is", shorten(at))
	}

	if err != nil {
		return "", explain(dir, err)
	}

	defer func() { _ = unix.Close(holder) }()

	up := ""
	if at != "." {
		up = strings.Repeat("../", strings.Count(at, "/")+1)
	}

	rel := path.Join(at, name)

	if err := w.takeEntry(); err != nil {
		return "", err
	}

	if err := unix.Symlinkat(up+target, holder, name); err != nil {
		return "", explain(rel, err)
	}

	return rel, explain(rel, w.own(holder, name))
}

// StaysBelow reports whether a link, at a path relative to a directory, resolves inside the
// directory wherever the directory is placed: its target must be relative, have ".." only at its
// start and not climb out of the directory. So no chain of such links leaves it either.
func StaysBelow(link, target string) bool {
	if target == "" || path.IsAbs(target) {
		return false
	}

	depth, climbing := strings.Count(path.Clean(link), "/"), true

	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if !climbing || depth == 0 {
				return false
			}

			depth--
		default:
			climbing = false
		}
	}

	return true
}
