package tools

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

	"everloop/domain"
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
	workspaces Workspaces
	maxResult  int // characters
}

func newGlob(d Deps) Tool {
	g := glob{d.Workspaces, d.Limits.Result}

	return Tool{
		Name: "Glob", DisplayName: "Glob",
		Spec:     domain.ToolSpec{Name: "Glob", Description: globDescription, Parameters: parameters[globArguments]()},
		Planning: true, Executing: true,
		Run:     g.run,
		Summary: member("pattern", "path"),
	}
}

func (g glob) run(ctx context.Context, c *Call) (Result, error) {
	in, err := decode[globArguments](c.Arguments)
	if err != nil {
		return Result{}, err
	}

	files, err := g.workspaces.Open(ctx, c.Session)
	if err != nil {
		return toModel(err)
	}
	defer files.Close()

	base, pattern, err := splitPattern(files, in.Path, in.Pattern)
	if err != nil {
		return toModel(err)
	}

	found, capped, err := matching(ctx, files, base, pattern)
	if err != nil {
		return toModel(err)
	}

	return Result{Output: globList(found, capped, in.Pattern, g.maxResult)}, nil
}

// splitPattern takes the directories that a pattern names outright off its
// front, so that only what lies below them is walked.
func splitPattern(files Files, dir, pattern string) (base, rest string, err error) {
	if pathpkg.IsAbs(pattern) {
		dir, pattern = doublestar.SplitPattern(pattern)
	}

	if dir, err = files.Clean(dir); err != nil {
		return "", "", err
	}

	if !doublestar.ValidatePattern(pattern) {
		return "", "", refuse("%s is not a valid pattern", quote(pattern))
	}

	literal, rest := doublestar.SplitPattern(pattern)

	base, err = files.Clean(pathpkg.Join(dir, literal))
	if err == nil && slices.Contains(strings.Split(rest, "/"), "..") {
		err = refuse("%s leaves the workspace", quote(pattern))
	}

	return base, rest, err
}

func matching(ctx context.Context, files Files, base, pattern string) (found []FileInfo, capped bool, err error) {
	info, err := files.Stat(base)
	if domain.HasCode(err, domain.CodeFileNotFound) {
		return nil, false, nil
	}

	if err != nil {
		return nil, false, err
	}

	if !info.IsDir {
		return nil, false, refuse("%s is not a directory", base)
	}

	seen := 0
	err = files.Walk(ctx, base, func(f FileInfo) error {
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
		if ok, _ := doublestar.Match(pattern, name); !ok {
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
	return name == ".git" || name == ServiceDir
}

func globList(found []FileInfo, capped bool, pattern string, most int) string {
	if len(found) == 0 && capped {
		return fmt.Sprintf(
			"None of the first %d files and directories matches %s. Use a path to look among others.", maxGlobSeen, quote(pattern),
		)
	}

	if len(found) == 0 {
		return "No file matches " + quote(pattern) + "."
	}

	slices.SortStableFunc(found, func(a, b FileInfo) int {
		return cmp.Or(b.ModTime.Compare(a.ModTime), cmp.Compare(a.Path, b.Path))
	})

	var out strings.Builder

	const tail = 200

	shown, chars := 0, 0

	for _, f := range found[:min(len(found), maxGlobPaths)] {
		n := length(f.Path) + 1
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
