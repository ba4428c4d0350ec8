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

// Resolve gives the path of what a path leads to, free of links.
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
	if !ok { // it was moved away, or deleted, in this moment
		return "", explain(p, unix.ENOENT)
	}

	return path.Clean(below), nil
}

// LinkTo makes a link in a directory, which is made when it is missing, to
// something that exists. It is a relative one, so that it holds in the sandbox
// and here. It gives the link's path.
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
	// A link on the way would give the link's own path another meaning.
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

// StaysBelow reports whether a link, at a path below some directory, leads to
// something in that directory wherever the directory is put: its target is
// relative, climbs only at its beginning and not out of the directory. So no
// chain of such links leads out either.
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
