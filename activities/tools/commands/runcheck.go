package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"everloop/activities/tools"
	"everloop/domain/schedule"
)

// RunCheck runs a command of an outcome contract in the sandbox of a session, and says
// whether it passed. An error is a fault of the service, or the cause of the context.
func RunCheck(ctx context.Context, sandbox tools.Sandbox, s tools.SessionView, command string) (check schedule.RunCheck, err error) {
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
	exit, err := sandbox.Run(run, tools.Command{
		Session: s, Argv: []string{"bash", "-c", command}, Env: tools.Environment(s.Env), Stdout: out, Stderr: out,
		Started: func(int) { // waiting for its turn is not the command's time
			began = time.Now()

			clock.Reset(schedule.OutcomeCommandTime)
		},
	})
	check.Output, check.DurationMS = out.finish("", ""), time.Since(began).Milliseconds()

	words, refused := tools.Refusal(err)
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
