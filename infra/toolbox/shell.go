//go:build linux

package toolbox

import (
	"context"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/egress"
	"everloop/infra/sandbox"
)

// notFound is what a shell answers for a program that is not there.
const notFound = 127

// Shell runs the tools' commands in the sandbox.
type Shell struct {
	Sandbox *sandbox.Sandbox
	Limits  sandbox.Limits
	Slots   *Slots // nil: no bound on commands at once

	Proxy    *egress.Proxy // nil: commands have no network
	Policies tools.NetworkPolicies
}

// connect gives a command of a session its way into the network, which must be closed
// with it; nil: it has none.
func (s Shell) connect(spec *sandbox.Spec, sessionID domain.SessionID) *egress.Command {
	if s.Proxy == nil || !s.Sandbox.Networked() {
		return nil
	}

	way := s.Proxy.Open(func(ctx context.Context) (domain.NetworkPolicy, error) {
		return s.Policies.NetworkPolicy(ctx, sessionID)
	})
	spec.Proxy = way.Serve

	return way
}

// Run implements tools.Sandbox. The time limit is the context's. A command that finds
// no slot is refused with CodeTooManyCommands.
func (s Shell) Run(ctx context.Context, c tools.Command) (tools.Exit, error) {
	release, err := s.Slots.take(ctx, c.Session)
	if err != nil {
		return tools.Exit{}, err
	}
	defer release()

	spec := sandbox.Spec{
		Argv: c.Argv, Workspace: c.Session.Root, UID: c.Session.SandboxUID, Env: c.Env, Limits: s.Limits,
		Stdout: c.Stdout, Stderr: c.Stderr,
	}

	way := s.connect(&spec, c.Session.ID)
	defer way.Close()

	process, err := s.Sandbox.Start(ctx, spec)
	if err != nil {
		return tools.Exit{}, err
	}

	if c.Started != nil {
		c.Started(process.PID())
	}

	result, err := process.Wait()

	exit := tools.Exit{Code: result.ExitCode, Connections: way.Close()}
	if err != nil {
		return exit, err
	}

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
