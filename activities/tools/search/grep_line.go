package search

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"everloop/activities/tools"
)

// shownLine makes what is shown of a line from its pieces, however long it is. The
// zero value is an empty line.
type shownLine struct {
	head    []byte // the first bytes
	size    int    // bytes in all
	chars   int    // characters in all, those of ends included
	returns int    // carriage returns at the end, which belong to the end of the line
}

// maxLineHead is what the characters that are shown may take, bytes.
const maxLineHead = (maxGrepLine + 1) * utf8.UTFMax

// Write adds a piece of the line; it never fails.
func (l *shownLine) Write(p []byte) (int, error) {
	l.size += len(p)

	l.head = append(l.head, p[:min(len(p), maxLineHead-len(l.head))]...)
	for _, b := range p {
		if utf8.RuneStart(b) {
			l.chars++
		}
	}

	rest := bytes.TrimRight(p, "\r")
	if len(rest) > 0 {
		l.returns = 0
	}

	l.returns += len(p) - len(rest)

	return len(p), nil
}

// String returns the line as it is shown: without its end, cut when it is too long.
func (l *shownLine) String() string {
	text := tools.Clean(string(bytes.TrimRight(l.head, "\r")))

	whole := l.size-l.returns <= len(l.head)
	if whole && tools.Length(text) <= maxGrepLine {
		return text
	}

	return tools.First(text, maxGrepLine) + fmt.Sprintf(" [… cut: the line has %d characters]", l.chars-l.returns)
}

func (l *shownLine) reset() { *l = shownLine{head: l.head[:0]} }

// shownLines divides text that comes in pieces into lines as they are shown. Of more
// than a report takes the others are only counted.
type shownLines struct {
	keep bool     // whether any are shown
	list []string // the first lines

	count int // lines that have ended
	chars int // of list, and what a report adds to each at least
	line  shownLine
}

// leastRow is how many characters a report adds to each line at least: a path, a
// mark and the end.
const leastRow = 3

// Write takes the next piece; it never fails.
func (l *shownLines) Write(p []byte) (int, error) {
	rest := p
	for {
		piece, after, ended := bytes.Cut(rest, []byte("\n"))
		if l.wants() {
			_, _ = l.line.Write(piece)
		} else {
			l.line.size += len(piece)
		}

		if !ended {
			return len(p), nil
		}

		l.end()

		rest = after
	}
}

// close ends a last line that has no end.
func (l *shownLines) close() {
	if l.line.size > 0 || l.count == 0 {
		l.end()
	}
}

// wants says whether the next line can be shown yet. One more is kept than a report
// takes, so that the report is full.
func (l *shownLines) wants() bool { return l.keep && l.chars <= maxGrepText+leastRow+maxGrepLine }

func (l *shownLines) end() {
	if l.wants() {
		text := l.line.String()
		l.list = append(l.list, text)
		l.chars += tools.Length(text) + leastRow
	}

	l.count++
	l.line.reset()
}
