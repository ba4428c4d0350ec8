package search

import (
	"bytes"
	"context"
	"errors"
	"path"
	"strconv"
	"sync/atomic"

	"everloop/activities/tools"
)

// ripgrep lists files with rg in the session's sandbox.
type ripgrep struct {
	sandbox tools.Sandbox
	session tools.SessionView
	missing *atomic.Bool
}

// Exit codes of rg, and of a shell that does not find it.
const (
	rgFault     = 2
	notRunnable = 126
	notFound    = 127
)

// errNoRipgrep reports that the sandbox does not have ripgrep, or that ripgrep rejects the pattern.
var errNoRipgrep = errors.New("ripgrep cannot do this search")

// each calls visit for the files below s.path that contain a match, ordered by path, until visit returns an error.
func (g ripgrep) each(ctx context.Context, s search, visit func(path string) error) error {
	run, cancel := context.WithCancel(ctx)
	defer cancel()

	paths := pathReader{visit: visit, stop: cancel}
	faulty := faults(false)

	exit, err := g.sandbox.Run(run, tools.Command{Session: g.session, Argv: g.arguments(s), Stdout: &paths, Stderr: &faulty})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case paths.err != nil:
		return paths.err
	case err != nil, exit.Killed != "":
		return errNoRipgrep // the search itself is small: it is done without the sandbox
	case exit.Code == notFound, exit.Code == notRunnable:
		g.missing.Store(true)
		return errNoRipgrep
	case exit.Code > rgFault, exit.Code == rgFault && bool(faulty):
		return errNoRipgrep // it rejects the pattern
	}

	return nil // rgFault without a message: some files could not be read
}

func (g ripgrep) arguments(s search) []string {
	args := []string{
		"rg", "--no-config", "--files-with-matches", "--null", "--sort", "path",
		"--no-ignore", "--hidden", "--no-messages", "--encoding", "none", "--crlf",
		"--max-filesize", strconv.Itoa(maxGrepFile),
		"--glob", "!.git/", "--glob", "!" + tools.ServiceDir + "/",
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

	return append(args, "--regexp", translate(s.pattern, ripgrepClass), "--", "./"+s.path)
}

// pathReader calls visit for each path that rg writes; every path ends with NUL.
type pathReader struct {
	visit   func(path string) error
	stop    func()
	pending []byte
	err     error
}

const maxPath = 16 << 10 // bytes; Linux accepts 4096

// Write implements io.Writer; it never fails.
func (r *pathReader) Write(p []byte) (int, error) {
	for rest := p; r.err == nil; {
		name, after, ended := bytes.Cut(rest, []byte{0})
		r.pending = append(r.pending, name...)

		switch {
		case len(r.pending) > maxPath:
			r.err = errNoRipgrep
		case !ended:
			return len(p), nil
		default:
			r.err = r.visit(path.Clean(string(r.pending)))
			r.pending, rest = r.pending[:0], after
		}
	}

	r.stop()

	return len(p), nil
}

// faults is whether rg wrote a message: with --no-messages only about the pattern.
type faults bool

// Write implements io.Writer; it never fails.
func (f *faults) Write(p []byte) (int, error) {
	*f = *f || len(p) > 0
	return len(p), nil
}
