package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"image"
	_ "image/gif" // sizes of pictures
	_ "image/jpeg"
	_ "image/png"
	"io"
	"net/http"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed read.md
var readDescription string

const (
	defaultReadLines = 2000
	maxLineShown     = 2000 // characters
	sniffed          = 8 << 10
	maxImageHead     = 16 << 20 // bytes that are looked at for the size of a picture
)

type readArguments struct {
	Path   string      `json:"file_path" jsonschema:"The file, relative to the root of the workspace" limits:"1..4096"`
	Offset tools.Whole `json:"offset,omitempty" jsonschema:"Number of the first line to read, from 1" limits:"0.."`
	Limit  tools.Whole `json:"limit,omitempty" jsonschema:"How many lines to read; 2000 when left out" limits:"1.."`
}

type read struct {
	reads     tools.FileReads
	maxResult int // characters
}

func newRead(d tools.Deps) tools.Tool {
	r := read{d.Reads, d.Limits.Result}

	return tools.Tool{
		Name: "Read", DisplayName: "Read",
		Spec:     domain.ToolSpec{Name: "Read", Description: readDescription, Parameters: tools.Parameters[readArguments]()},
		Planning: true, Executing: true,
		Run:     tools.WithFiles(d.Workspaces, r.run),
		Summary: tools.SummaryBy("file_path"),
	}
}

func (r read) run(ctx context.Context, c *tools.Call, in readArguments, files tools.Files) (tools.Result, error) {
	path, err := files.Clean(in.Path)
	if err != nil {
		return tools.ToModel(err)
	}

	file, info, err := files.Read(path)
	if err != nil {
		return tools.ToModel(err)
	}
	defer file.Close()

	result, err := r.show(inTime{ctx, file}, info, path, in)
	if err != nil {
		return tools.Result{}, fmt.Errorf("read file of workspace: %w", err)
	}

	if err := r.reads.Record(ctx, c.Session.ID, path, info.ETag); err != nil {
		return tools.Result{}, err
	}

	return result, nil
}

// show gives the part of a file that was asked for, or says what the file is
// when it is not text.
func (r read) show(file io.ReadSeeker, info tools.FileInfo, path string, in readArguments) (tools.Result, error) {
	start := make([]byte, sniffed)

	n, err := io.ReadFull(file, start)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return tools.Result{}, err
	}

	if n == 0 {
		return tools.Result{Output: fmt.Sprintf("(%s is empty.)", path)}, nil
	}

	if kind := binary(start[:n]); kind != "" {
		return describeBinary(file, info, path, kind)
	}

	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return tools.Result{}, err
	}

	return r.page(file, info.Size, path, in)
}

// inTime ends a long read with its context.
type inTime struct {
	ctx context.Context
	io.ReadSeeker
}

// Read implements io.Reader.
func (t inTime) Read(p []byte) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}

	return t.ReadSeeker.Read(p)
}

// binary returns the media type of content that is not text; empty for text.
func binary(start []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(start), ";")
	switch {
	case strings.HasPrefix(kind, "image/"), kind == "application/pdf":
		return kind
	case strings.IndexByte(string(start), 0) >= 0:
		return kind
	default:
		return "" // text in whatever encoding: bytes that are not UTF-8 are replaced
	}
}

func describeBinary(file io.ReadSeeker, info tools.FileInfo, path, kind string) (tools.Result, error) {
	if !strings.HasPrefix(kind, "image/") {
		return *tools.Failed("%s is a binary file (%s, %d bytes); Read shows text only. Use Bash with a program that understands it.",
			path, kind, info.Size), nil
	}

	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return tools.Result{}, err
	}

	size := ""
	if config, _, err := image.DecodeConfig(io.LimitReader(file, maxImageHead)); err == nil {
		size = fmt.Sprintf(", %d × %d pixels", config.Width, config.Height)
	}

	return tools.Result{
		Output: fmt.Sprintf("%s is an image (%s%s, %d bytes). Its picture cannot be shown as text.", path, kind, size, info.Size),
	}, nil
}

// page returns numbered lines until the limit of lines or of characters.
func (r read) page(file io.Reader, size int64, path string, in readArguments) (tools.Result, error) {
	offset, limit := max(int(in.Offset), 1), defaultReadLines
	if in.Limit > 0 {
		limit = int(in.Limit)
	}

	lines := newLineReader(io.LimitReader(file, size), maxLineShown, ofService(path)) // a command may be adding to it

	var out strings.Builder

	const tail = 200 // room for the remark at the end

	chars, shown := 0, 0

	for {
		line, err := lines.next()
		if err == io.EOF {
			break
		}

		if err != nil {
			return tools.Result{}, err
		}

		if lines.number < offset {
			continue
		}

		row := fmt.Sprintf("%6d\t%s\n", lines.number, line)

		n := tools.Length(row)
		if shown == limit || chars+n > r.maxResult-tail {
			fmt.Fprintf(&out, "\n[Lines %d to %d are shown. There is more: go on with offset %d.]\n", offset, lines.number-1, lines.number)
			return tools.Result{Output: out.String()}, nil
		}

		out.WriteString(row)

		chars += n
		shown++
	}

	if shown == 0 {
		return *tools.Failed("%s has %d lines, so there is nothing at offset %d.", path, lines.number, offset), nil
	}

	return tools.Result{Output: out.String()}, nil
}

// ofService reports whether a path belongs to the service's own directory.
func ofService(p string) bool {
	return p == tools.ServiceDir || strings.HasPrefix(p, tools.ServiceDir+"/")
}
