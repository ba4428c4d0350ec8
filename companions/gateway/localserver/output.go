package localserver

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

const (
	keptLines = 40  // of the output of a server
	keptBytes = 500 // of a line
)

// output stores the last lines of a server's output, shortened, with its key and terminal
// escape sequences removed.
type output struct {
	secret string

	mu    sync.Mutex
	lines []string
	part  []byte // of an incomplete line
	cut   bool   // the rest of that line is dropped
}

// Write appends output of the process. It never fails.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	n := len(text)

	for {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		o.add(line)

		if !ended {
			return n, nil
		}

		o.end()

		text = rest
	}
}

// room of an incomplete line: the key may span the point where it is cut.
const lineRoom = 4 * keptBytes

func (o *output) add(piece []byte) {
	if left := lineRoom - len(o.part); len(piece) > left {
		piece, o.cut = piece[:left], true
	}

	o.part = append(o.part, piece...)
}

func (o *output) end() {
	if o.cut { // it may end in a part of the key
		o.part = o.part[:len(o.part)-min(len(o.part), len(o.secret))]
	}

	line := o.clean(string(o.part))
	if o.cut && !strings.HasSuffix(line, "…") {
		line += "…"
	}

	o.part, o.cut = o.part[:0], false

	if strings.TrimSpace(line) == "" {
		return
	}

	if o.lines = append(o.lines, line); len(o.lines) > keptLines {
		o.lines = append(o.lines[:0], o.lines[len(o.lines)-keptLines:]...)
	}
}

// steering matches sequences that set colours or move a cursor.
var steering = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

func (o *output) clean(line string) string {
	line = steering.ReplaceAllString(strings.ToValidUTF8(line, ""), "")
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}

		return r
	}, line)
	line = strings.ReplaceAll(line, o.secret, "***")

	if len(line) > keptBytes {
		line = strings.ToValidUTF8(line[:keptBytes], "") + "…"
	}

	return line
}

// last returns the lines so far, including an incomplete one.
func (o *output) last() []string {
	o.mu.Lock()
	defer o.mu.Unlock()

	lines := append([]string{}, o.lines...)
	if rest := o.clean(string(o.part)); strings.TrimSpace(rest) != "" {
		lines = append(lines, rest)
	}

	return lines[max(0, len(lines)-keptLines):]
}
