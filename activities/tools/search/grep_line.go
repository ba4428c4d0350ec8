package search

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"everloop/activities/tools"
)

// maxLineHead is the size of the longest prefix of a line that a report can show, in bytes.
const maxLineHead = (maxGrepLine + 1) * utf8.UTFMax

// shownLine returns a line as reports show it: without its end, cut when it is too long.
func shownLine(line []byte) string {
	line = bytes.TrimRight(line, "\r")
	text := tools.Clean(string(line[:min(len(line), maxLineHead)]))

	if len(line) <= maxLineHead && tools.Length(text) <= maxGrepLine {
		return text
	}

	chars := 0
	for _, b := range line {
		if utf8.RuneStart(b) {
			chars++
		}
	}

	return tools.First(text, maxGrepLine) + fmt.Sprintf(" [… cut: the line has %d characters]", chars)
}
