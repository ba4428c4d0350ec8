package search

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	pathpkg "path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"everloop/activities/tools"
	"everloop/domain"
	globs "everloop/domain/pattern"
)

//go:embed glob.md
var globDescription string

// How many paths Glob returns, and how many it looks at to find the newest.
const (
	maxGlobPaths = 1000
	maxGlobFound = 200_000
	maxGlobSeen  = 1_000_000 // files and directories
)

type globArguments struct {
	Pattern string `json:"pattern" jsonschema:"The pattern, as **/*.go" limits:"1..4096"`
	Path    string `json:"path,omitempty" jsonschema:"The directory to look in; the root of the workspace when left out" limits:"..4096"`
}

type glob struct {
	maxResult int // characters
}

// NewGlob returns a new tool Glob.
func NewGlob(d tools.Deps) tools.Tool {
	g := glob{d.Limits.Result}

	return tools.Tool{
		Name: "Glob", DisplayName: "Glob",
		Spec:     domain.ToolSpec{Name: "Glob", Description: globDescription, Parameters: tools.Parameters[globArguments]()},
		Planning: true, Executing: true,
		Run:     tools.WithFiles(d.Workspaces, g.run),
		Summary: tools.SummaryBy("pattern", "path"),
	}
}

func (g glob) run(ctx context.Context, c *tools.Call, in globArguments, files tools.Files) (tools.Result, error) {
	base, pattern, err := splitPattern(files, in.Path, in.Pattern)
	if err != nil {
		return tools.ToModel(err)
	}

	found, capped, err := matching(ctx, files, base, pattern)
	if err != nil {
		return tools.ToModel(err)
	}

	return tools.Result{Output: globList(found, capped, in.Pattern, g.maxResult)}, nil
}

// splitPattern takes the directories that a pattern names outright off its
// front, so that only what lies below them is walked.
func splitPattern(files tools.Files, dir, pattern string) (base, rest string, err error) {
	if pathpkg.IsAbs(pattern) {
		dir, pattern = doublestar.SplitPattern(pattern)
	}

	if dir, err = files.Clean(dir); err != nil {
		return "", "", err
	}

	if !globs.ValidGlob(pattern) {
		return "", "", tools.Refuse("%s is not a valid pattern", tools.Quote(pattern))
	}

	literal, rest := doublestar.SplitPattern(pattern)

	base, err = files.Clean(pathpkg.Join(dir, literal))
	if err == nil && slices.Contains(strings.Split(rest, "/"), "..") {
		err = tools.Refuse("%s leaves the workspace", tools.Quote(pattern))
	}

	return base, rest, err
}

func matching(ctx context.Context, files tools.Files, base, pattern string) (found []tools.FileInfo, capped bool, err error) {
	info, err := files.Stat(base)
	if domain.HasCode(err, domain.CodeFileNotFound) {
		return nil, false, nil
	}

	if err != nil {
		return nil, false, err
	}

	if !info.IsDir {
		return nil, false, tools.Refuse("%s is not a directory", base)
	}

	seen := 0
	err = files.Walk(ctx, base, func(f tools.FileInfo) error {
		if seen++; seen > maxGlobSeen {
			capped = true
			return fs.SkipAll
		}

		if f.IsDir {
			if f.Path != base && skipped(f.Path) {
				return fs.SkipDir
			}

			return nil
		}

		name := strings.TrimPrefix(f.Path, base+"/")
		if !globs.Match(pattern, name) {
			return nil
		}

		if len(found) == maxGlobFound {
			capped = true
			return fs.SkipAll
		}

		found = append(found, f)

		return nil
	})

	return found, capped, err
}

// skipped leaves directories out that are not the user's work.
func skipped(dir string) bool {
	name := pathpkg.Base(dir)
	return name == ".git" || name == tools.ServiceDir
}

func globList(found []tools.FileInfo, capped bool, pattern string, most int) string {
	if len(found) == 0 && capped {
		return fmt.Sprintf(
			"None of the first %d files and directories matches %s. Use a path to look among others.", maxGlobSeen, tools.Quote(pattern),
		)
	}

	if len(found) == 0 {
		return "No file matches " + tools.Quote(pattern) + "."
	}

	slices.SortStableFunc(found, func(a, b tools.FileInfo) int {
		return cmp.Or(b.ModTime.Compare(a.ModTime), cmp.Compare(a.Path, b.Path))
	})

	var out strings.Builder

	const tail = 200

	shown, chars := 0, 0

	for _, f := range found[:min(len(found), maxGlobPaths)] {
		n := tools.Length(f.Path) + 1
		if chars+n > most-tail {
			break
		}

		chars += n
		shown++

		out.WriteString(f.Path + "\n")
	}

	if shown < len(found) || capped {
		more := ""
		if capped {
			more = "more than "
		}

		fmt.Fprintf(
			&out, "\n[The newest %d of %s%d files are shown. Use a narrower pattern or a path to see the others.]\n", shown, more,
			len(found),
		)
	}

	return out.String()
}
