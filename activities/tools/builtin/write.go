package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed write.md
var writeDescription string

// maxWritten bounds a file that Write makes or Edit changes, in bytes.
const maxWritten = 10 << 20

type writeArguments struct {
	Path    string `json:"file_path" jsonschema:"The file, relative to the root of the workspace" limits:"1..4096"`
	Content string `json:"content" jsonschema:"The whole content of the file"`
}

type write struct {
	reads tools.FileReads
}

func newWrite(d tools.Deps) tools.Tool {
	w := write{d.Reads}

	return tools.Tool{
		Name: "Write", DisplayName: "Write",
		Spec:      domain.ToolSpec{Name: "Write", Description: writeDescription, Parameters: tools.Parameters[writeArguments]()},
		Acts:      true,
		Executing: true,
		Run:       tools.WithFiles(d.Workspaces, w.run),
		Summary:   tools.SummaryBy("file_path"),
	}
}

func (w write) run(ctx context.Context, c *tools.Call, in writeArguments, files tools.Files) (tools.Result, error) {
	if len(in.Content) > maxWritten {
		return *tools.Failed(
			"The content has %d bytes; Write takes at most %d. Make large files with Bash.", len(in.Content), maxWritten,
		), nil
	}

	path, err := files.Clean(in.Path)
	if err != nil {
		return tools.ToModel(err)
	}

	change := tools.FileCreated

	return changeFile(ctx, w.reads, c, path, func(seen string) (tools.FileInfo, error) {
		match := ""

		info, err := files.Stat(path)
		switch {
		case domain.HasCode(err, domain.CodeFileNotFound):
			match = tools.Absent // a command may be making it at this moment
		case err != nil:
			return tools.FileInfo{}, err
		case info.IsDir:
			return tools.FileInfo{}, tools.Refuse("%s is a directory", path)
		default:
			change, match = tools.FileModified, info.ETag
			if err := unchanged(path, info.ETag, seen); err != nil {
				return tools.FileInfo{}, err
			}
		}

		return files.Write(ctx, path, strings.NewReader(in.Content), match)
	}, func() (string, string) {
		verb := "Made"
		if change == tools.FileModified {
			verb = "Replaced"
		}

		return change, fmt.Sprintf("%s %s (%d lines, %d bytes).", verb, path, countLines(in.Content), len(in.Content))
	})
}

// changeFile makes one change of a file while it is locked, and reports it. describe
// gives the kind of the change and the words for the model.
func changeFile(ctx context.Context, reads tools.FileReads, c *tools.Call, path string,
	change func(seen string) (tools.FileInfo, error), describe func() (kind, words string),
) (tools.Result, error) {
	written := false

	err := reads.Change(ctx, c.Session.ID, path, func(seen string) (string, error) {
		info, err := change(seen)
		written = err == nil

		return info.ETag, err
	})
	if err != nil && !written {
		return tools.ToModel(err)
	}

	kind, words := describe()
	if err != nil { // the file is as the model wants it, only the note of it is missing
		words += " Read it again before the next change of it."
	}

	return tools.Result{Output: words, Changed: []domain.FileChange{{Path: path, Change: kind}}}, nil
}

// unchanged holds a change to the version that was read (docs/tools.md#write).
func unchanged(path, now, seen string) error {
	switch seen {
	case "":
		return tools.Refuse("%s was not read in this session. Read it first, so that nothing in it is lost", path)
	case now:
		return nil
	default:
		return tools.Refuse("%s has changed since it was read. Read it again and then change it", path)
	}
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}

	return n
}
