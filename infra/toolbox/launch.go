//go:build linux

package toolbox

import (
	"context"
	"fmt"

	"everloop/infra/mcp"
	"everloop/infra/sandbox"
)

// Launch implements mcp.Launcher: a tool server is a command of its session or a
// private one, with the same confinement, limits and network.
func (s Shell) Launch(ctx context.Context, p mcp.Program) (mcp.Process, error) {
	spec := sandbox.Spec{
		Argv: p.Argv, Env: p.Env, Limits: s.Limits, StdinPipe: true, Stdout: p.Stdout, Stderr: p.Stderr,
	}
	if p.Session != nil {
		spec.Workspace, spec.UID = p.Session.Root, p.Session.SandboxUID
	} else {
		spec.Private, spec.Limits.Workspace, spec.Limits.Inodes = true, 0, 0
	}

	release := func() {}

	if p.Session != nil {
		var err error
		if release, err = s.Slots.take(ctx, *p.Session); err != nil {
			return nil, err
		}
	}

	way := s.connect(&spec, p.SessionID)

	process, err := s.Sandbox.Start(ctx, spec)
	if err != nil {
		way.Close()
		release()

		return nil, err
	}

	go func() {
		<-process.Done()
		way.Close()
		release()
	}()

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
	case result.Cause == sandbox.DiskFull:
		return "its process was ended because the disk is full and it wrote most"
	case result.Signal != "":
		return fmt.Sprintf("its process ended by a signal (%s)", result.Signal)
	default:
		return fmt.Sprintf("its process ended with exit code %d", result.ExitCode)
	}
}
