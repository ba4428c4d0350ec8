package search

import (
	"bytes"
	"encoding/base64"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// rgReader reads rg's messages, one JSON object a line, as they come: one message
// can be many times the size of the file that it is about, because it lists each
// match of a text beside the text. Only what a report shows is kept of it.
type rgReader struct {
	report *report
	full   func()
	summed bool
	done   bool

	lexer   jsonLexer
	message rgMessage
	skip    bool // the rest of the message
}

// rgMessage is what is read of one message.
type rgMessage struct {
	kind   bounded
	path   bounded
	lines  shownLines
	number int
	binary bool
}

// bounded keeps the beginning of a text.
type bounded struct{ text []byte }

const maxBounded = 16 << 10 // bytes; a path has at most 4096

func (b *bounded) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), maxBounded-len(b.text))]...)
	return len(p), nil
}

// Write implements io.Writer; it never fails.
func (g *rgReader) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && !g.done; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after

		if !g.skip {
			g.skip = !g.lexer.read(line, g.member)
		}

		if ended {
			g.end()
		}
	}

	return len(p), nil
}

// member chooses where the value of a member goes. What follows "submatches" is of
// no use, and may be large: false ends the message.
func (g *rgReader) member(at []string) (to io.Writer, more bool) {
	m := &g.message

	switch strings.Join(at, ".") {
	case "type":
		return &m.kind, true
	case "data.path.text":
		return &m.path, true
	case "data.path.bytes":
		return &fromBase64{to: &m.path}, true
	case "data.lines.text", "data.lines.bytes":
		m.lines.keep = g.report.takes()
		if at[len(at)-1] == "bytes" {
			return &fromBase64{to: &m.lines}, true
		}

		return &m.lines, true
	case "data.line_number":
		return scalar(func(text string) { m.number, _ = strconv.Atoi(text) }), true
	case "data.binary_offset":
		return scalar(func(text string) { m.binary = text != "null" }), true
	case "data.submatches":
		return nil, false
	}

	return io.Discard, true
}

// end takes a whole message into the report.
func (g *rgReader) end() {
	m := g.message
	g.message, g.skip = rgMessage{}, false
	g.lexer = jsonLexer{plain: g.lexer.plain}

	switch kind := string(m.kind.text); kind {
	case "begin":
		g.report.begin(path.Clean(string(m.path.text)))
	case "match", "context":
		m.lines.close()

		if kind == "match" {
			g.report.count += m.lines.count
		}

		for i, text := range m.lines.list {
			g.report.show(m.number+i, text, kind == "match")
		}
	case "end":
		g.report.end(m.binary)

		if g.report.full {
			g.done = true
			g.full()
		}
	case "summary":
		g.summed = true
	}
}

// scalar is called with a number, true, false or null.
type scalar func(text string)

func (s scalar) Write(p []byte) (int, error) {
	s(string(p))
	return len(p), nil
}

// fromBase64 decodes what is written to it in pieces.
type fromBase64 struct {
	to   io.Writer
	held []byte // less than four characters
}

func (f *fromBase64) Write(p []byte) (int, error) {
	f.held = append(f.held, p...)
	whole := len(f.held) / 4 * 4
	text := make([]byte, base64.StdEncoding.DecodedLen(whole))
	n, err := base64.StdEncoding.Decode(text, f.held[:whole])
	f.held = slices.Delete(f.held, 0, whole)

	if err != nil {
		return 0, err
	}

	_, err = f.to.Write(text[:n])

	return len(p), err
}
