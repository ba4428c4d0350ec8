package mcp

import (
	"context"
	"errors"

	"everloop/domain/toolserver"
)

// Presets know how servers are started that name a preset in place of a command.
type Presets interface {
	// Command gives the command line of a preset and its variables. An error says
	// what of it this machine does not have.
	Command(preset string) (argv []string, env map[string]string, err error)
}

// withheldTools are tools of presets that are offered only when a server's settings
// name them: this one runs a program outside the page, as a command would, so that a rule
// about commands would not hold for it.
var withheldTools = map[string][]string{
	toolserver.BrowserPreset: {"browser_run_code_unsafe"},
}

// presetProgram gives what runs a server of a preset. Its command is the operator's and
// it holds no secret, so that it may run in the workspace of any session, as its user. It
// gets none of the session's variables: what a page does to a browser must not reach them.
func (m *Manager) presetProgram(ctx context.Context, t target) (Program, error) {
	p := Program{SessionID: t.session.ID}
	if m.Presets == nil {
		return p, errors.New("this worker has no presets")
	}

	var err error
	if p.Argv, p.Env, err = m.Presets.Command(t.server.Preset); err != nil {
		return p, err
	}

	p.Session, err = m.workspace(ctx, t.session)

	return p, err
}
