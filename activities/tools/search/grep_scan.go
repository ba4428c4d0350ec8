package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"

	"everloop/activities/tools"
	"everloop/domain"
)

// scan searches the lines of files for the report.
type scan struct {
	files tools.Files
	search
	report *report
}

// walk searches all files below a directory.
func (g scan) walk(ctx context.Context) error {
	return g.files.Walk(ctx, g.path, func(f tools.FileInfo) error {
		switch {
		case f.Path == g.path:
			return nil
		case f.IsDir && (skipped(f.Path) || !g.names.dir(f.Path)):
			return fs.SkipDir
		case f.IsDir, !f.Regular, f.Size == 0, f.Size > maxGrepFile, !g.names.file(f.Path):
			return nil
		}

		return g.file(ctx, f.Path)
	})
}

// file searches a file; it returns fs.SkipAll when the report is full.
func (g scan) file(ctx context.Context, path string) error {
	data, err := g.read(path)
	if err != nil || len(data) == 0 || bytes.IndexByte(data, 0) >= 0 {
		return err
	}

	if start, _ := g.form.LiteralPrefix(); !bytes.Contains(data, []byte(start)) {
		return nil // most files end here
	}

	matched, err := g.matchedLines(ctx, data)
	if err != nil {
		return err
	}

	if matched.count > 0 {
		g.report.begin(path)
		g.show(data, matched)
		g.report.end()
	}

	if g.report.full {
		return fs.SkipAll
	}

	return ctx.Err()
}

// read returns the content of a file; nothing for one that is not searched.
func (g scan) read(path string) ([]byte, error) {
	file, info, err := g.files.Read(path)
	if _, refused := errors.AsType[*domain.Error](err); refused {
		return nil, nil // deleted, or not readable: the others are still worth searching
	}

	if err != nil {
		return nil, err
	}

	defer file.Close()

	if info.Size > maxGrepFile {
		return nil, nil
	}

	data := make([]byte, info.Size) // what a command adds in the meantime is not searched

	n, err := io.ReadFull(file, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read file of workspace: %w", err)
	}

	return data[:n], nil
}

// lineSet is a set of lines by their index.
type lineSet struct {
	bits  []uint64
	count int
}

func (l *lineSet) add(line int) {
	for len(l.bits) <= line/64 {
		l.bits = append(l.bits, 0)
	}

	if !l.has(line) {
		l.bits[line/64] |= 1 << (line % 64)
		l.count++
	}
}

func (l *lineSet) has(line int) bool {
	return line >= 0 && line/64 < len(l.bits) && l.bits[line/64]&(1<<(line%64)) != 0
}

// matchedLines returns the lines that match; only the first one when the report lists files.
func (g scan) matchedLines(ctx context.Context, data []byte) (lineSet, error) {
	var matched lineSet
	if g.multiline {
		coveredLines(g.form, data, &matched)
		return matched, ctx.Err()
	}

	index := 0
	for line := range bytes.Lines(data) {
		if index%4096 == 0 && ctx.Err() != nil {
			return matched, ctx.Err()
		}

		if g.form.Match(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))) {
			matched.add(index)

			if g.report.mode == grepFiles {
				break
			}
		}

		index++
	}

	return matched, nil
}

// coveredLines adds the lines that the matches of the whole text lie on.
func coveredLines(form *regexp.Regexp, data []byte, matched *lineSet) {
	line, start := 0, 0 // the line that the search has come to, and where it starts
	after := func(start int) int {
		if end := bytes.IndexByte(data[start:], '\n'); end >= 0 {
			return start + end + 1
		}

		return len(data)
	}

	eachMatch(form, data, func(from, to int) {
		if from >= len(data) {
			return // an empty match behind the last line
		}

		for next := after(start); next <= from; next = after(start) {
			line, start = line+1, next
		}

		matched.add(line)

		for next := after(start); next < to; next = after(start) {
			line, start = line+1, next
			matched.add(line)
		}
	})
}

// eachMatch calls visit for each match, from left to right. It does not gather them,
// as FindAllIndex does: there may be as many as bytes.
func eachMatch(form *regexp.Regexp, data []byte, visit func(from, to int)) {
	form.ReplaceAllFunc(data, func(match []byte) []byte {
		from := cap(data) - cap(match) // match is a part of data
		visit(from, from+len(match))

		return nil
	})
}

// show adds the lines that match to the report, with the lines around them.
func (g scan) show(data []byte, matched lineSet) {
	r := g.report
	if r.mode != grepContent {
		r.count = matched.count
		return
	}

	near := 0       // matches from this line to the one that is before lines ahead
	shownUpTo := -1 // the last line behind a match that is shown

	for ahead := range g.before {
		if matched.has(ahead) {
			near++
		}
	}

	index := 0

	for line := range bytes.Lines(data) {
		if r.full {
			return
		}

		if matched.has(index + g.before) {
			near++
		}

		if matched.has(index) {
			shownUpTo = index + g.after
		}

		if near > 0 || index <= shownUpTo {
			r.line(index+1, bytes.TrimSuffix(line, []byte("\n")), matched.has(index))
		}

		if matched.has(index) {
			near--
		}

		index++
	}
}
