package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"everloop/domain"
)

// scan searches in Go, with the options and results of ripgrep, where the
// sandbox has none.
type scan struct{ files Files }

func (g scan) search(ctx context.Context, s search, r *report) error {
	info, err := g.files.Stat(s.path)
	if err != nil {
		return err
	}
	if !info.IsDir {
		return g.file(s, s.path, r)
	}
	return g.files.Walk(ctx, s.path, func(f FileInfo) error {
		switch {
		case f.Path == s.path:
			return nil
		case f.IsDir && (skipped(f.Path) || !s.names.dir(f.Path)):
			return fs.SkipDir
		case f.IsDir, !f.Regular, f.Size > maxGrepFile, !s.names.file(f.Path):
			return nil
		}
		if err := g.file(s, f.Path, r); err != nil {
			return err
		}
		if r.full {
			return fs.SkipAll
		}
		return ctx.Err()
	})
}

func (g scan) file(s search, path string, r *report) error {
	file, _, err := g.files.Read(path)
	if _, refused := errors.AsType[*domain.Error](err); refused {
		return nil // gone, or not readable: the others are still worth searching
	}
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxGrepFile+1))
	if err != nil {
		return fmt.Errorf("read file of workspace: %w", err)
	}
	if len(data) > maxGrepFile || bytes.IndexByte(data, 0) >= 0 {
		return nil
	}
	lines, matched := matchedLines(s, data)
	if len(matched) == 0 {
		return nil
	}
	r.begin(path)
	next := 0 // the first line that was not shown yet
	for i, at := range matched {
		end := at + 1 + s.after
		if i+1 < len(matched) {
			end = min(end, matched[i+1])
		}
		for n := max(next, at-s.before); n < min(end, len(lines)); n++ {
			r.line(n+1, lines[n], n == at)
			next = n + 1
		}
	}
	r.end(false)
	return nil
}

// matchedLines splits a file and gives the indexes of the lines that match.
func matchedLines(s search, data []byte) (lines []string, matched []int) {
	if start, _ := s.form.LiteralPrefix(); len(data) == 0 || !bytes.Contains(data, []byte(start)) {
		return nil, nil // most files end here
	}
	text := string(data)
	lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if !s.multiline {
		for i, line := range lines {
			if s.form.MatchString(strings.TrimSuffix(line, "\r")) {
				matched = append(matched, i)
			}
		}
		return lines, matched
	}
	return lines, coveredLines(s.form.FindAllStringIndex(text, -1), lines, len(text))
}

// coveredLines gives the indexes of the lines that the matches lie on.
func coveredLines(matches [][]int, lines []string, size int) (matched []int) {
	line, start := 0, 0 // the line that the scan has come to, and where it begins
	for _, match := range matches {
		from, to := match[0], match[1]
		if from >= size {
			break // an empty match behind the last line
		}
		for line < len(lines)-1 && start+len(lines[line])+1 <= from {
			start += len(lines[line]) + 1
			line++
		}
		for at, begin := line, start; at < len(lines) && (at == line || begin < to); at++ {
			if n := len(matched); n == 0 || matched[n-1] < at {
				matched = append(matched, at)
			}
			begin += len(lines[at]) + 1
		}
	}
	return matched
}
