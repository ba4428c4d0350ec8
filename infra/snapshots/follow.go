//go:build linux

package snapshots

import (
	"path"
	"strings"

	"everloop/domain"
	"everloop/infra/snapshots/manifest"
)

// maxLinks is the maximum number of links in the resolution of a path, as in Linux.
const maxLinks = 40

// Follow resolves a path and its links within the workspace; "." is the root. It reads the links
// of the snapshot and follows the rules for files of a workspace: a path that leaves the
// workspace, also by an absolute target, is path_outside_workspace.
func (v *View) Follow(p string) (string, error) {
	at, links := ".", 0

	for names := strings.Split(p, "/"); len(names) > 0; {
		name := names[0]
		names = names[1:]

		switch {
		case name == "" || name == ".":
			continue
		case name == ".." && at == ".":
			return "", outside(p)
		case name == "..":
			at = parentOf(at)
			continue
		}

		e := visible(v.source.tree.at(path.Join(at, name)))

		switch {
		case e == nil:
			return "", domain.Newf(domain.NotFound, domain.CodeFileNotFound, "%s is not in the snapshot", shown(p))
		case e.Kind == manifest.Link:
			if links++; links > maxLinks {
				return "", domain.Newf(domain.Invalid, CodeNotRegular, "%s is a broken symbolic link", shown(p))
			}

			if path.IsAbs(e.Target) {
				return "", outside(p)
			}

			names = append(strings.Split(e.Target, "/"), names...)
		case e.Kind != manifest.Directory && len(names) > 0:
			return "", domain.Newf(domain.Invalid, CodeNotDirectory, "%s is not a directory, or a part of it is not", shown(p))
		default:
			at = e.Path
		}
	}

	return at, nil
}

func outside(p string) error {
	return domain.Newf(domain.Malformed, domain.CodePathOutside, "%s leaves the workspace", shown(p))
}
