//go:build linux

package toolbox

import (
	"context"
	"fmt"

	"everloop/infra/mcp"
	"everloop/infra/sandbox"
)

// Launch implements mcp.Launcher: a tool server is a command of its session,
// with the same confinement and limits.
func (s Shell) Launch(ctx context.Context, p mcp.Program) (mcp.Process, error) {
	process, err := s.Sandbox.Start(ctx, sandbox.Spec{
		Argv: p.Argv, Workspace: p.Session.Root, UID: p.Session.SandboxUID, Env: p.Env, Limits: s.Limits,
		StdinPipe: true, Stdout: p.Stdout, Stderr: p.Stderr,
	})
	if err != nil {
		return nil, err
	}
	return launched{process}, nil
}

type launched struct{ *sandbox.Process }

// Ending implements mcp.Process.
func (l launched) Ending() string {
	result, err := l.Wait()
	switch {
	case err != nil:
		return "the sandbox failed"
	case result.Cause == sandbox.NotStarted:
		return "its program could not be started: " + result.Detail
	case result.Cause == sandbox.OutOfMemory:
		return "its process ran out of memory"
	case result.Cause == sandbox.WorkspaceFull:
		return "its process was ended because the workspace is full"
	case result.Signal != "":
		return fmt.Sprintf("its process ended by a signal (%s)", result.Signal)
	default:
		return fmt.Sprintf("its process ended with exit code %d", result.ExitCode)
	}
}
