// Package search holds the tools that find files and lines of a workspace: Glob and Grep.
// Grep matches lines with Go's engine; ripgrep in the sandbox, where it is installed, only
// preselects the files.
package search

import (
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"sync/atomic"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed grep.md
var grepDescription string

// maxGrepFile is the size of the largest file that is searched, in bytes.
const maxGrepFile = 32 << 20

// Output modes of Grep.
const (
	grepContent = "content"
	grepFiles   = "files_with_matches"
	grepCount   = "count"
)

type grepArguments struct {
	Pattern   string      `json:"pattern" jsonschema:"The regular expression (RE2 syntax)" limits:"1..10000"`
	Path      string      `json:"path,omitempty" jsonschema:"The file or directory to search; the whole workspace when left out" limits:"..4096"`
	Glob      string      `json:"glob,omitempty" jsonschema:"Names of the files to search, as *.go or !*_test.go" limits:"..1000"`
	Mode      string      `json:"output_mode,omitempty" jsonschema:"content when left out" enum:"content|files_with_matches|count"`
	Fold      bool        `json:"-i,omitempty" jsonschema:"Ignore case"`
	Numbers   *bool       `json:"-n,omitempty" jsonschema:"Show line numbers; true when left out"`
	After     tools.Whole `json:"-A,omitempty" jsonschema:"Lines to show after each match" limits:"0..1000"`
	Before    tools.Whole `json:"-B,omitempty" jsonschema:"Lines to show before each match" limits:"0..1000"`
	Around    tools.Whole `json:"-C,omitempty" jsonschema:"Lines to show before and after each match" limits:"0..1000"`
	HeadLimit tools.Whole `json:"head_limit,omitempty" jsonschema:"Return so many lines or files at most; 0 or nothing is no limit" limits:"0.."`
	Multiline bool        `json:"multiline,omitempty" jsonschema:"Let the pattern go over lines"`
}

// search is a validated search.
type search struct {
	pattern       string
	form          *regexp.Regexp
	fold          bool
	multiline     bool
	path          string // clean, relative to the root
	names         nameFilter
	before, after int
}

type grep struct {
	sandbox tools.Sandbox
	missing *atomic.Bool // whether the sandbox lacks ripgrep: stored by the first search
}

// NewGrep returns a new tool Grep.
func NewGrep(d tools.Deps) tools.Tool {
	g := grep{d.Sandbox, new(atomic.Bool)}

	return tools.Tool{
		Name: "Grep", DisplayName: "Grep",
		Spec:     domain.ToolSpec{Name: "Grep", Description: grepDescription, Parameters: tools.Parameters[grepArguments]()},
		Planning: true, Executing: true,
		Run:     tools.WithFiles(d.Workspaces, g.run),
		Summary: tools.SummaryBy("pattern", "path"),
	}
}

func (g grep) run(ctx context.Context, c *tools.Call, in grepArguments, files tools.Files) (tools.Result, error) {
	s, err := newSearch(files, in)
	if err != nil {
		return tools.ToModel(err)
	}

	info, err := files.Stat(s.path)
	if err != nil {
		return tools.ToModel(err)
	}

	if !info.IsDir && !info.Regular {
		return *tools.Failed("%s is neither a file nor a directory; links are not followed.", s.path), nil
	}

	if !info.IsDir && info.Size > maxGrepFile {
		return *tools.Failed(
			"%s has %d bytes; files over %d MiB are not searched. Use Bash with grep.", s.path, info.Size, maxGrepFile>>20,
		), nil
	}

	out, err := g.search(ctx, c, scan{files, s, newReport(s, in)}, info.IsDir)
	if err != nil && !errors.Is(err, fs.SkipAll) {
		return tools.ToModel(err)
	}

	return tools.Result{Output: out.text()}, nil
}

// search returns the report, with fs.SkipAll when it is full. Ripgrep finds the files of a directory several times
// faster than a walk does.
func (g grep) search(ctx context.Context, c *tools.Call, s scan, dir bool) (*report, error) {
	if !dir {
		return s.report, s.file(ctx, s.path)
	}

	if g.sandbox != nil && !g.missing.Load() {
		listed := scan{s.files, s.search, s.report.empty()}

		err := ripgrep{g.sandbox, c.Session, g.missing}.each(ctx, s.search, func(path string) error { return listed.file(ctx, path) })
		if !errors.Is(err, errNoRipgrep) {
			return listed.report, err
		}
	}

	return s.report, s.walk(ctx)
}

func newSearch(files tools.Files, in grepArguments) (search, error) {
	path, err := files.Clean(in.Path)
	if err != nil {
		return search{}, err
	}

	if !in.Multiline && strings.Contains(in.Pattern, `\n`) {
		return search{}, tools.Refuse(`the pattern holds \n but lines are matched one by one; set multiline`)
	}

	form, err := compilePattern(in.Pattern, in.Fold, in.Multiline)
	if err != nil {
		return search{}, err
	}

	names, err := newNameFilter(in.Glob)
	if err != nil {
		return search{}, err
	}

	return search{
		pattern: in.Pattern, form: form, fold: in.Fold, multiline: in.Multiline, path: path, names: names,
		before: int(max(in.Before, in.Around)), after: int(max(in.After, in.Around)),
	}, nil
}
