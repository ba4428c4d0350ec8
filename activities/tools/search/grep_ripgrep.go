package search

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"everloop/activities/tools"
)

// ripgrep searches with rg in the session's sandbox.
type ripgrep struct {
	sandbox tools.Sandbox
	session tools.SessionView
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

	exit, err := g.sandbox.Run(run, tools.Command{Session: g.session, Argv: g.arguments(s), Stdout: reader})
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
		"--glob", "!.git/", "--glob", "!" + tools.ServiceDir + "/",
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
