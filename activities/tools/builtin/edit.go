package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed edit.md
var editDescription string

type editArguments struct {
	Path string `json:"file_path" jsonschema:"The file, relative to the root of the workspace" limits:"1..4096"`
	Old  string `json:"old_string" jsonschema:"The text to replace, exactly as it is in the file" limits:"1.."`
	New  string `json:"new_string" jsonschema:"The text to put in its place"`
	All  bool   `json:"replace_all,omitempty" jsonschema:"Replace every occurrence instead of the only one"`
}

type edit struct {
	reads tools.FileReads
}

func newEdit(d tools.Deps) tools.Tool {
	e := edit{d.Reads}

	return tools.Tool{
		Name: "Edit", DisplayName: "Edit",
		Spec:      domain.ToolSpec{Name: "Edit", Description: editDescription, Parameters: tools.Parameters[editArguments]()},
		Acts:      true,
		Executing: true,
		Check: func(arguments json.RawMessage) string {
			if in, err := tools.Decode[editArguments](arguments); err == nil && in.Old == in.New {
				return "old_string and new_string are identical, so there is nothing to change"
			}

			return ""
		},
		Run:     tools.WithFiles(d.Workspaces, e.run),
		Summary: tools.SummaryBy("file_path"),
	}
}

func (e edit) run(ctx context.Context, c *tools.Call, in editArguments, files tools.Files) (tools.Result, error) {
	path, err := files.Clean(in.Path)
	if err != nil {
		return tools.ToModel(err)
	}

	var (
		before string
		edits  []udiff.Edit
	)

	return changeFile(ctx, e.reads, c, path, func(seen string) (tools.FileInfo, error) {
		var err error
		if before, err = content(files, path, seen); err != nil {
			return tools.FileInfo{}, err
		}

		if edits, err = replacements(before, in); err != nil {
			return tools.FileInfo{}, err
		}

		after, err := udiff.Apply(before, edits)
		if err != nil {
			return tools.FileInfo{}, fmt.Errorf("apply replacements: %w", err)
		}

		if len(after) > maxWritten {
			return tools.FileInfo{}, tools.Refuse("the file would have %d bytes; Edit handles at most %d", len(after), maxWritten)
		}

		return files.Write(ctx, path, strings.NewReader(after), seen)
	}, func() (string, string) {
		return tools.FileModified, edited(path, before, edits)
	})
}

// content reads a text file that is still as it was read before.
func content(files tools.Files, path, seen string) (string, error) {
	file, info, err := files.Read(path)
	if domain.HasCode(err, domain.CodeFileNotFound) {
		return "", tools.Refuse("%s does not exist. Make it with Write", path)
	}

	if err != nil {
		return "", err
	}

	defer file.Close()

	if err := unchanged(path, info.ETag, seen); err != nil {
		return "", err
	}

	data, err := io.ReadAll(io.LimitReader(file, maxWritten+1))
	if err != nil {
		return "", fmt.Errorf("read file of workspace: %w", err)
	}

	if len(data) > maxWritten {
		return "", tools.Refuse("%s has %d bytes; Edit handles at most %d. Use Bash, with sed for example", path, info.Size, maxWritten)
	}

	if bytes.IndexByte(data, 0) >= 0 {
		return "", tools.Refuse("%s is a binary file, which Edit cannot change", path)
	}

	return string(data), nil
}

// replacements finds what to replace. Line ends of both kinds match each other, and the
// line ends of the new text are those of the file at that place.
func replacements(text string, in editArguments) ([]udiff.Edit, error) {
	lines := splitLineEnds(text)
	from, to := in.Old, in.New

	if lines.windows() {
		from, to = unixLines(from), unixLines(to)
	}

	count := strings.Count(lines.unix, from)

	switch {
	case count == 0:
		return nil, tools.Refuse("old_string does not occur in the file. Copy it exactly as Read shows it, without the line numbers")
	case count > 1 && !in.All:
		return nil, tools.Refuse("old_string occurs %d times in the file. Give more of the lines around it, or set replace_all", count)
	}

	edits := make([]udiff.Edit, 0, count)

	for at := 0; ; {
		i := strings.Index(lines.unix[at:], from)
		if i < 0 {
			return edits, nil
		}

		start, end := lines.offset(at+i), lines.offset(at+i+len(from))
		edits = append(edits, udiff.Edit{Start: start, End: end, New: lines.ended(to, start, end)})
		at += i + len(from)
	}
}

// lineEnds is a text, the same with the line ends of Unix, and where a carriage return was
// removed from it, in order.
type lineEnds struct {
	text, unix string
	removed    []int // offsets in unix of the line feeds
}

func splitLineEnds(text string) lineEnds {
	out := lineEnds{text: text, unix: unixLines(text)}

	for at := 0; ; {
		i := strings.Index(text[at:], "\r\n")
		if i < 0 {
			return out
		}

		out.removed = append(out.removed, at+i-len(out.removed))
		at += i + 2
	}
}

func (l lineEnds) windows() bool { return len(l.removed) > 0 }

// offset returns the place in the text of a place in its Unix form. A line end belongs to
// what starts with it.
func (l lineEnds) offset(at int) int {
	before, _ := slices.BinarySearch(l.removed, at)
	return at + before
}

// ended returns a new text for a part of the file, with the line ends of that part: each
// line keeps its own, and further lines have that of the last one. A part without line ends
// takes the next one in the file, or else the last one before it.
func (l lineEnds) ended(to string, start, end int) string {
	if !l.windows() || !strings.Contains(to, "\n") {
		return to
	}

	ends := endsOf(l.text[start:end])
	if len(ends) == 0 {
		ends = []string{l.nearest(start, end)}
	}

	var out strings.Builder

	for i, line := range strings.Split(to, "\n") {
		if i > 0 {
			out.WriteString(ends[min(i-1, len(ends)-1)])
		}

		out.WriteString(line)
	}

	return out.String()
}

// nearest returns the line end behind a part of the text, or else before it.
func (l lineEnds) nearest(start, end int) string {
	at := strings.IndexByte(l.text[end:], '\n') + end
	if at < end {
		at = strings.LastIndexByte(l.text[:start], '\n')
	}

	if at > 0 && l.text[at-1] == '\r' {
		return "\r\n"
	}

	return "\n"
}

func endsOf(text string) (ends []string) {
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return ends
		}

		if at += i; at > 0 && text[at-1] == '\r' {
			ends = append(ends, "\r\n")
		} else {
			ends = append(ends, "\n")
		}

		at++
	}
}

func unixLines(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// edited describes the change by a unified difference, shortened when it is
// long. The replacements themselves are the edits, so that no search for the
// smallest difference is needed.
func edited(path, before string, edits []udiff.Edit) string {
	head := fmt.Sprintf("Changed %s (%d replacement", path, len(edits))
	if len(edits) != 1 {
		head += "s"
	}

	diff, err := udiff.ToUnified(path, path, before, edits, 3)
	if err != nil {
		return head + ")."
	}

	const most = 20_000

	diff = tools.Clean(diff)
	if tools.Length(diff) > most {
		diff = tools.First(diff, most) + "\n[… the difference is shortened here …]\n"
	}

	return head + "):\n" + diff
}
