//go:build linux

package skills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/workspace"
	"everloop/internal/skillpack"
)

// maxSessionSkills bounds how many packages of one workspace are looked at.
const maxSessionSkills = 200

// maxSessionEntries is how many entries the directory of packages may have: it is
// listed at each step of a chat.
const maxSessionEntries = 10_000

// parsed is a SKILL.md that was read, or what is wrong with it.
type parsed struct {
	doc     skillpack.Document
	problem string
}

// scan looks at the packages in a session's workspace, by name. It reads each
// SKILL.md when it is new or changed, and nothing else: it is asked for at each
// step of a chat.
func (s *Service) scan(ctx context.Context, sessionID domain.SessionID, w *workspace.Workspace) ([]*entry, error) {
	dirs, err := w.List(ctx, SessionDir, maxSessionEntries)
	if err == nil && s.repair(ctx, w, SessionDir, dirs) {
		dirs, err = w.List(ctx, SessionDir, maxSessionEntries)
	}

	if domain.HasCode(err, domain.CodeFileNotFound) || domain.HasCode(err, workspace.CodeNotDirectory) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	var list []*entry
	for _, dir := range dirs {
		if dir.Type != workspace.Directory || strings.HasPrefix(dir.Name, ".") || len(list) == maxSessionSkills {
			continue
		}

		found := s.document(ctx, sessionID, w, dir.Name)
		list = append(list, &entry{
			Skill: skill.Skill{
				ID: uploadedID(sessionID, dir.Name), Name: dir.Name, Description: found.doc.Description, Version: found.doc.Version,
				Source: skill.Uploaded, Problem: found.problem, Dir: path.Join(SessionDir, dir.Name),
			},
			doc: found.doc,
		})
	}

	return list, nil
}

func uploadedID(sessionID domain.SessionID, name string) string {
	return "uploaded:" + string(sessionID) + ":" + name
}

// document reads the SKILL.md of a package in a workspace.
func (s *Service) document(ctx context.Context, sessionID domain.SessionID, w *workspace.Workspace, name string) parsed {
	if problem := skillpack.CheckName(name); problem != "" {
		return parsed{problem: "the name of its directory " + problem}
	}

	file, info, err := documentFile(ctx, w, path.Join(SessionDir, name))
	if err != nil {
		return parsed{problem: "it has no " + skillpack.DocumentName}
	}

	key := string(sessionID) + "/" + file + info.ETag()
	if found, ok := s.documents.get(key); ok {
		return found
	}

	var found parsed

	content, _, err := w.ReadFile(file, skillpack.MaxDocument)
	if err == nil {
		found.doc, err = skillpack.Parse(content)
	}

	switch {
	case err != nil:
		found.problem = problemOf(err)
	case found.doc.Name != name:
		found.problem = "the name in its front matter is not that of its directory"
	}

	s.documents.put(key, found)

	return found
}

// documentFile finds the document of a package, whatever the case of its letters.
func documentFile(ctx context.Context, w *workspace.Workspace, dir string) (file string, info workspace.Info, err error) {
	file = path.Join(dir, skillpack.DocumentName)
	if info, err = w.Stat(file); err == nil {
		return file, info, nil
	}

	list, listed := w.List(ctx, dir, maxSessionEntries)
	if listed != nil {
		return file, info, err
	}

	for _, entry := range list {
		if strings.EqualFold(entry.Name, skillpack.DocumentName) {
			return path.Join(dir, entry.Name), entry, nil
		}
	}

	return file, info, err
}

// inspect reads a package in a workspace whole, unless its files look as they
// did. A command may be changing it: then it is read again, a few times. The
// files of the package can be opened while the workspace is.
func (s *Service) inspect(ctx context.Context, w *workspace.Workspace, dir string) (skillpack.Pack, error) {
	for attempt := 1; ; attempt++ {
		files, look, err := packageFiles(ctx, w, dir)
		if err != nil {
			return skillpack.Pack{}, err
		}

		known, ok := s.digests.get(look)
		if ok {
			known.Files = slices.SortedFunc(slices.Values(files), func(a, b skillpack.File) int { return strings.Compare(a.Path, b.Path) })
			return known, nil
		}

		p, err := skillpack.Inspect(ctx, files)
		if err == nil {
			remembered := p
			remembered.Files = nil // they belong to this workspace's descriptor
			s.digests.put(look, remembered)

			return p, nil
		}

		if !errors.Is(err, skillpack.ErrChanged) && !domain.HasCode(err, domain.CodeFileNotFound) || attempt == 3 {
			return skillpack.Pack{}, err
		}
	}
}

// packageFiles lists the regular files of a directory of a workspace, and names
// the state that they are in.
func packageFiles(ctx context.Context, w *workspace.Workspace, dir string) (files []skillpack.File, look string, err error) {
	var state strings.Builder

	err = w.Walk(ctx, dir, func(info workspace.Info) error {
		if info.Type != workspace.File {
			return nil
		}

		if len(files) > skillpack.MaxFiles {
			return fs.SkipAll // it is refused for their number
		}

		mode := fs.FileMode(0o644)
		if info.Mode&0o111 != 0 {
			mode = 0o755
		}

		files = append(files, skillpack.File{
			Path: strings.TrimPrefix(info.Path, dir+"/"), Size: info.Size, Mode: mode,
			Open: func() (io.ReadCloser, error) {
				file, _, err := w.Open(info.Path)
				if err != nil {
					return nil, err
				}

				return file, nil
			},
		})
		fmt.Fprintf(&state, "%s\x00%d\x00%s\x00", info.Path, info.Device, info.ETag())

		return nil
	})

	return files, state.String(), err
}
