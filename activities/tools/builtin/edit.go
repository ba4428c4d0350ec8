package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
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
	workspaces tools.Workspaces
	reads      tools.FileReads
}

func newEdit(d tools.Deps) tools.Tool {
	e := edit{d.Workspaces, d.Reads}

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
		Run:     e.run,
		Summary: tools.SummaryBy("file_path"),
	}
}

func (e edit) run(ctx context.Context, c *tools.Call) (tools.Result, error) {
	in, err := tools.Decode[editArguments](c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	files, err := e.workspaces.Open(ctx, c.Session)
	if err != nil {
		return tools.ToModel(err)
	}
	defer files.Close()

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

// replacements finds what to replace. In a file with the line ends of Windows,
// strings are taken with either kind.
func replacements(text string, in editArguments) ([]udiff.Edit, error) {
	from, to := in.Old, in.New

	count := strings.Count(text, from)
	if count == 0 && strings.Contains(text, "\r\n") {
		from, to = windowsLines(from), windowsLines(to)
		count = strings.Count(text, from)
	}

	switch {
	case count == 0:
		return nil, tools.Refuse("old_string does not occur in the file. Copy it exactly as Read shows it, without the line numbers")
	case count > 1 && !in.All:
		return nil, tools.Refuse("old_string occurs %d times in the file. Give more of the lines around it, or set replace_all", count)
	}

	edits := make([]udiff.Edit, 0, count)

	for at := 0; ; {
		i := strings.Index(text[at:], from)
		if i < 0 {
			return edits, nil
		}

		edits = append(edits, udiff.Edit{Start: at + i, End: at + i + len(from), New: to})
		at += i + len(from)
	}
}

func windowsLines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

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
