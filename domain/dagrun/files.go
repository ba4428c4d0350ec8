package dagrun

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"everloop/domain/dag"
	"everloop/domain/pattern"
)

// Bounds of the files that nodes pass on.
const (
	MaxFiles        = 1000      // of one unit
	MaxFileBytes    = 256 << 20 // of all files of one unit
	MaxRunFiles     = 10_000    // of all units of a run
	MaxRunFileBytes = 1 << 30   // of all files of a run
	maxFilePath     = 1000      // bytes of the path of a file
)

// Codes of failures of files.
const (
	CodeFilesTooLarge = "files_too_large" // more files or bytes than a unit or a run can pass on
	CodeFileMissing   = "file_missing"    // a file that is named without wildcards does not exist
)

// OutputFile is a file that a unit passes on.
type OutputFile struct {
	Path   string `json:"path" doc:"Its path in the workspace." example:"report/summary.md"`
	Size   int64  `json:"size" doc:"Its size in bytes." example:"2048"`
	SHA256 string `json:"sha256" doc:"The SHA-256 of its content, in hexadecimal." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	Mode   uint32 `json:"mode" doc:"Its permission bits." example:"420"`
	Item   *int   `json:"item,omitempty" doc:"Of a map node: the item that made it, from 0."`
}

// FileSet are the files that one unit passes on.
type FileSet struct {
	Item     int          `json:"item"` // NoItem: of the node itself
	Snapshot string       `json:"snapshot,omitempty"`
	Files    []OutputFile `json:"files"`
}

// Captured is what was stored of the files of a unit, or why its attempt fails. A map node has
// the sets of its items.
type Captured struct {
	Sets    []FileSet    `json:"sets"`
	Failure *NodeFailure `json:"failure,omitempty"`
}

// Total returns the number of the files, and their bytes.
func (c Captured) Total() (files int, bytes int64) {
	for _, set := range c.Sets {
		files += len(set.Files)

		for _, f := range set.Files {
			bytes += f.Size
		}
	}

	return files, bytes
}

// List returns the files of all sets.
func (c Captured) List() []OutputFile {
	var all []OutputFile

	for _, set := range c.Sets {
		for _, f := range set.Files {
			if item := set.Item; item != NoItem {
				f.Item = &item
			}

			all = append(all, f)
		}
	}

	return all
}

// CheckFiles checks the files of a unit against its bounds.
func CheckFiles(files int, bytes int64) *NodeFailure {
	if files <= MaxFiles && bytes <= MaxFileBytes {
		return nil
	}

	return FilesTooLarge(files, bytes)
}

// FilesTooLarge returns the failure of a unit whose files exceed the bounds of a unit or a run.
func FilesTooLarge(files int, bytes int64) *NodeFailure {
	return &NodeFailure{CodeFilesTooLarge, fmt.Sprintf(
		"the output files are %d or more, of %d bytes: a node or an item can pass on %d files of %d bytes, a run %d files of %d bytes",
		files, bytes, MaxFiles, MaxFileBytes, MaxRunFiles, MaxRunFileBytes)}
}

// selection is a pattern of files, a file, or a directory.
type selection struct {
	name  string // clean; a pattern or the name of a file or a directory
	exact bool   // it has no wildcards
	base  string // the directory before the first wildcard
}

func selectionOf(text string) selection {
	s := selection{name: path.Clean(text)}
	if text == "" || s.name == "." {
		s.name = "**"
	}

	first := strings.IndexAny(s.name, `*?[{\`)
	if s.exact = first < 0; !s.exact {
		s.base = path.Clean(s.name[:strings.LastIndexByte(s.name[:first], '/')+1])
	}

	return s
}

// file reports whether the selection selects a file.
func (s selection) file(name string) bool {
	if s.exact {
		return name == s.name || strings.HasPrefix(name, s.name+"/")
	}

	return pattern.Match(s.name, name)
}

// target returns the path of a selected file in another workspace. Only of one file of one set
// to is the new name itself.
func (s selection) target(name, to string, item int) string {
	at := name

	switch {
	case to == "":
	case s.exact && name == s.name && (item != NoItem || strings.HasSuffix(to, "/")):
		at = path.Base(name)
	case s.exact && name == s.name:
		return path.Clean(to)
	case s.exact:
		at = strings.TrimPrefix(name, s.name+"/")
	case s.base != ".":
		at = strings.TrimPrefix(name, s.base+"/")
	}

	if item != NoItem {
		at = path.Join(strconv.Itoa(item), at)
	}

	return path.Join(to, at)
}

// Selects returns a function that reports whether a file is an output file of a node.
func Selects(n dag.Node) func(name string) bool {
	var selections []selection
	if n.Outputs != nil {
		for _, text := range n.Outputs.Files {
			selections = append(selections, selectionOf(text))
		}
	}

	return func(name string) bool {
		for _, s := range selections {
			if s.file(name) {
				return true
			}
		}

		return false
	}
}

// CheckNames checks the names of the output files of a node: those that the node names without
// wildcards must exist.
func CheckNames(n dag.Node, files []OutputFile) *NodeFailure {
	for _, f := range files {
		if !utf8.ValidString(f.Path) || len(f.Path) > maxFilePath {
			return &NodeFailure{CodeInvalidOutput, fmt.Sprintf(
				"the name of an output file is not UTF-8, or longer than %d bytes: %q", maxFilePath, cut(strings.ToValidUTF8(f.Path, "?")))}
		}
	}

	for _, text := range n.Outputs.Files {
		if s := selectionOf(text); s.exact && !s.any(files) {
			return &NodeFailure{CodeFileMissing, "the node has not written the file " + cut(text) + " (links are not passed on)"}
		}
	}

	return nil
}

func (s selection) any(files []OutputFile) bool {
	for _, f := range files {
		if s.file(f.Path) {
			return true
		}
	}

	return false
}

// Placement is a file that is put into the workspace of a unit.
type Placement struct {
	Snapshot string
	File     OutputFile
	To       string
}

// FilesFrom is what a unit was given of the files of an earlier node. Its digest is that of the
// paths and contents in the unit's workspace.
type FilesFrom struct {
	From   string `json:"from"`
	To     string `json:"to,omitempty"`
	Files  int    `json:"files"`
	Digest string `json:"digest"`
}

// Place returns where the files of an earlier node are put. A node that was skipped, or whose
// failure was ignored, has no sets and passes nothing on.
func Place(in dag.InputFiles, sets []FileSet) ([]Placement, *NodeFailure) {
	s := selectionOf(in.Path)

	var placed []Placement

	for _, set := range sets {
		for _, f := range set.Files {
			if s.file(f.Path) {
				placed = append(placed, Placement{Snapshot: set.Snapshot, File: f, To: s.target(f.Path, in.To, set.Item)})
			}
		}
	}

	if s.exact && len(placed) == 0 && len(sets) > 0 {
		return nil, &NodeFailure{CodeFileMissing, fmt.Sprintf("node %s has no output file %s", in.From, cut(in.Path))}
	}

	return placed, nil
}

// Given describes placements for the request of a unit.
func Given(in dag.InputFiles, placed []Placement) FilesFrom {
	type entry struct {
		To, SHA256 string
		Mode       uint32
	}

	entries := make([]entry, len(placed))
	for i, p := range placed {
		entries[i] = entry{p.To, p.File.SHA256, p.File.Mode}
	}

	return FilesFrom{From: in.From, To: in.To, Files: len(placed), Digest: digestOf(entries)}
}
