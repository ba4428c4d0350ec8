package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
)

// ripgrep searches with rg in the session's sandbox.
type ripgrep struct {
	sandbox Sandbox
	session SessionView
	missing *atomic.Bool
}

// Exit codes of rg and of a shell that does not find it.
const (
	rgNothing  = 1
	rgFault    = 2
	notRunable = 126
	notFound   = 127
)

func (g ripgrep) search(ctx context.Context, s search, r *report) error {
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	enough := errors.New("the report is full")
	reader := &rgReader{report: r, full: func() { cancel(enough) }}
	exit, err := g.sandbox.Run(run, Command{Session: g.session, Argv: g.arguments(s), Stdout: reader})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(context.Cause(run), enough):
		return nil
	case err != nil, exit.Killed != "":
		return errNoRipgrep // the search itself is small: look without the sandbox
	case exit.Code == notFound, exit.Code == notRunable:
		g.missing.Store(true)
		return errNoRipgrep
	case exit.Code == rgFault && !reader.summed:
		return errNoRipgrep // it does not take the pattern
	case exit.Code > rgFault:
		return errNoRipgrep
	}
	return nil // 2 with a summary: some files could not be read
}

func (g ripgrep) arguments(s search) []string {
	args := []string{
		"rg", "--no-config", "--json", "--line-number", "--sort", "path",
		"--no-ignore", "--hidden", "--no-messages", "--encoding", "none", "--crlf",
		"--max-filesize", strconv.Itoa(maxGrepFile),
		"--glob", "!.git/", "--glob", "!" + ServiceDir + "/",
		"--before-context", strconv.Itoa(s.before), "--after-context", strconv.Itoa(s.after),
	}
	if s.names.source != "" {
		args = append(args, "--glob", s.names.source)
	}
	if s.fold {
		args = append(args, "--ignore-case")
	} else {
		args = append(args, "--case-sensitive")
	}
	if s.multiline {
		args = append(args, "--multiline", "--multiline-dotall")
	}
	return append(args, "--regexp", s.pattern, "--", "./"+s.path)
}

// rgReader reads rg's messages, one JSON object a line.
type rgReader struct {
	report *report
	full   func()
	held   []byte
	summed bool
	done   bool
	drop   bool // the line is longer than any message of a searched file can be
}

// maxRgMessage bounds one message: a whole file in one line, escaped.
const maxRgMessage = 3 * maxGrepFile

func (g *rgReader) Write(p []byte) (int, error) {
	rest := p
	for len(rest) > 0 && !g.done {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		if !g.drop {
			g.held = append(g.held, line...)
		}
		if len(g.held) > maxRgMessage {
			g.held, g.drop = nil, true
		}
		if ended {
			g.message(g.held)
			g.held, g.drop = g.held[:0], false
		}
	}
	return len(p), nil
}

// rgText is text that may not be UTF-8: then its bytes come in base64.
type rgText struct {
	Text  *string `json:"text"`
	Bytes []byte  `json:"bytes"`
}

func (t rgText) String() string {
	if t.Text != nil {
		return *t.Text
	}
	return string(t.Bytes)
}

func (g *rgReader) message(line []byte) {
	var m struct {
		Type string `json:"type"`
		Data struct {
			Path   rgText `json:"path"`
			Lines  rgText `json:"lines"`
			Number int    `json:"line_number"`
			Binary *int64 `json:"binary_offset"`
		} `json:"data"`
	}
	if len(line) == 0 || json.Unmarshal(line, &m) != nil {
		return
	}
	switch m.Type {
	case "begin":
		g.report.begin(path.Clean(m.Data.Path.String()))
	case "match", "context":
		text := strings.TrimSuffix(m.Data.Lines.String(), "\n")
		for i, row := range strings.Split(text, "\n") {
			g.report.line(m.Data.Number+i, row, m.Type == "match")
		}
	case "end":
		g.report.end(m.Data.Binary != nil)
		if g.report.full {
			g.done = true
			g.full()
		}
	case "summary":
		g.summed = true
	}
}
