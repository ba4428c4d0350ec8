package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	pathpkg "path"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"everloop/domain"
	"everloop/domain/schedule"
)

// FileExists reports whether a regular file of the workspace matches a pattern as Glob
// takes it. Why says in words that none does.
func FileExists(ctx context.Context, workspaces Workspaces, s SessionView, pattern string) (why string, err error) {
	files, err := workspaces.Open(ctx, s)
	if err != nil {
		return "", err
	}
	defer files.Close()

	found, err := fileExists(ctx, files, pattern)
	if words, refused := refusal(err); err != nil && refused {
		return words, nil
	}

	if err == nil && !found {
		why = "no file matches"
	}

	return why, err
}

func fileExists(ctx context.Context, files Files, pattern string) (found bool, err error) {
	if path, err := files.Clean(pattern); err == nil {
		if info, err := files.Stat(path); err == nil && info.Regular {
			return true, nil
		}
	}

	base, rest, err := splitPattern(files, ".", pattern)
	if err != nil {
		return false, err
	}

	info, err := files.Stat(base)
	if domain.HasCode(err, domain.CodeFileNotFound) || err == nil && !info.IsDir {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	seen := 0
	err = files.Walk(ctx, base, func(f FileInfo) error {
		if seen++; seen > maxGlobSeen {
			return fs.SkipAll
		}

		if f.IsDir {
			if f.Path != base && pathpkg.Base(f.Path) == ".git" {
				return fs.SkipDir
			}

			return nil
		}

		if found, _ = doublestar.Match(rest, strings.TrimPrefix(f.Path, base+"/")); found && f.Regular {
			return fs.SkipAll
		}

		found = false

		return nil
	})

	return found, err
}

// RunCheck runs a command of an outcome contract in the sandbox of a session, and says
// whether it passed. An error is a fault of the service, or the cause of the context.
func RunCheck(ctx context.Context, sandbox Sandbox, s SessionView, command string) (check schedule.RunCheck, err error) {
	check = schedule.RunCheck{Kind: schedule.CheckCommand, Subject: command}

	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	clock := time.AfterFunc(schedule.OutcomeCommandTime, func() { cancel(errTimedOut) })
	defer clock.Stop()

	began := time.Now()
	out := &output{
		save:    func() (io.WriteCloser, error) { return nil, errNotSaved },
		live:    newProgress("stdout", nil),
		runaway: func() { cancel(errRunaway) },
		most:    schedule.MaxCheckOutput,
	}
	exit, err := sandbox.Run(run, Command{
		Session: s, Argv: []string{"bash", "-c", command}, Env: Environment(s.Env), Stdout: out, Stderr: out,
		Started: func(int) { // waiting for its turn is not the command's time
			began = time.Now()

			clock.Reset(schedule.OutcomeCommandTime)
		},
	})
	check.Output, check.DurationMS = out.finish("", ""), time.Since(began).Milliseconds()

	words, refused := refusal(err)
	switch cause := context.Cause(run); {
	case ctx.Err() != nil:
		return check, context.Cause(ctx)
	case err == nil:
		check.ExitCode, check.Met = &exit.Code, exit.Killed == "" && exit.Code == 0
		if exit.Killed != "" {
			check.Reason = exit.Killed
		} else if exit.Code != 0 {
			check.Reason = fmt.Sprintf("exit code %d", exit.Code)
		}
	case errors.Is(cause, errTimedOut):
		check.Reason = fmt.Sprintf("it was not over after %s", schedule.OutcomeCommandTime)
	case errors.Is(cause, errRunaway):
		check.Reason = fmt.Sprintf("it wrote more than %d MiB", maxOutput>>20)
	case refused:
		check.Reason = words
	default:
		return check, fmt.Errorf("run a command of an outcome contract: %w", err)
	}

	return check, nil
}

var errNotSaved = errors.New("the output of checks is not kept as a file")
