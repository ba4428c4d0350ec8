//go:build linux

package toolbox

import (
	"context"
	"strings"

	"everloop/activities/tools"
	"everloop/infra/sandbox"
)

// notFound is what a shell answers for a program that is not there.
const notFound = 127

// Shell runs the tools' commands in the sandbox.
type Shell struct {
	Sandbox *sandbox.Sandbox
	Limits  sandbox.Limits
}

// Run implements tools.Sandbox. The time limit is the context's.
func (s Shell) Run(ctx context.Context, c tools.Command) (tools.Exit, error) {
	process, err := s.Sandbox.Start(ctx, sandbox.Spec{
		Argv: c.Argv, Workspace: c.Session.Root, UID: c.Session.SandboxUID, Env: c.Env, Limits: s.Limits,
		Stdout: c.Stdout, Stderr: c.Stderr,
	})
	if err != nil {
		return tools.Exit{}, err
	}
	if c.Started != nil {
		c.Started(process.PID())
	}
	result, err := process.Wait()
	if err != nil {
		return tools.Exit{}, err
	}
	exit := tools.Exit{Code: result.ExitCode}
	switch result.Cause {
	case sandbox.Exited:
	case sandbox.Cancelled:
		return exit, context.Cause(ctx)
	case sandbox.NotStarted:
		exit.Code = notFound
	default:
		exit.Killed = strings.ReplaceAll(string(result.Cause), "_", " ")
	}
	return exit, nil
}
