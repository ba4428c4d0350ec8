//go:build linux

package toolbox

import (
	"context"
	"fmt"
	"strings"

	"everloop/activities/tools"
	"everloop/infra/sandbox"
)

// Shell runs the tools' commands in the sandbox.
type Shell struct {
	Sandbox *sandbox.Sandbox
	Limits  sandbox.Limits
}

// WorkspacePath is where a command sees the workspace that is kept at root.
func (s Shell) WorkspacePath(root string) string { return s.Sandbox.WorkspacePath(root) }

// Run implements tools.Sandbox. The time limit is the context's.
func (s Shell) Run(ctx context.Context, c tools.Command) (tools.Exit, error) {
	env := make(map[string]string, len(c.Session.Env)+len(c.Env))
	for name, value := range c.Session.Env {
		env[name] = value
	}
	for name, value := range c.Env {
		env[name] = value
	}
	process, err := s.Sandbox.Start(ctx, sandbox.Spec{
		Argv: c.Argv, Workspace: c.Session.Root, UID: c.Session.SandboxUID, Env: env, Limits: s.Limits,
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
		exit.Killed = fmt.Sprintf("not started: %s", result.Detail)
	default:
		exit.Killed = strings.ReplaceAll(string(result.Cause), "_", " ")
	}
	return exit, nil
}
