package search

import (
	"context"
	"io/fs"
	pathpkg "path"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
	globs "everloop/domain/pattern"
)

// FileExists reports whether a regular file of the workspace matches a pattern as Glob
// takes it. Why says in words that none does.
func FileExists(ctx context.Context, workspaces tools.Workspaces, s tools.SessionView, pattern string) (why string, err error) {
	files, err := workspaces.Open(ctx, s)
	if err != nil {
		return "", err
	}
	defer files.Close()

	found, err := fileExists(ctx, files, pattern)
	if words, refused := tools.Refusal(err); err != nil && refused {
		return words, nil
	}

	if err == nil && !found {
		why = "no file matches"
	}

	return why, err
}

func fileExists(ctx context.Context, files tools.Files, pattern string) (found bool, err error) {
	if path, err := files.Clean(pattern); err == nil {
		if info, err := files.Stat(path); err == nil && info.Regular {
			return true, nil
		}
	}

	base, rest, err := splitPattern(files, ".", pattern)
	if err != nil {
		return false, err
	}

	info, err := files.Stat(base)
	if domain.HasCode(err, domain.CodeFileNotFound) || err == nil && !info.IsDir {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	seen := 0
	err = files.Walk(ctx, base, func(f tools.FileInfo) error {
		if seen++; seen > maxGlobSeen {
			return fs.SkipAll
		}

		if f.IsDir {
			if f.Path != base && pathpkg.Base(f.Path) == ".git" {
				return fs.SkipDir
			}

			return nil
		}

		if found = globs.Match(rest, strings.TrimPrefix(f.Path, base+"/")); found && f.Regular {
			return fs.SkipAll
		}

		found = false

		return nil
	})

	return found, err
}
