package mcp

import (
	"context"
	"errors"

	"everloop/domain/toolserver"
)

// Presets resolve the presets of servers.
type Presets interface {
	// Command returns the command line and the variables of a preset. The error names the missing
	// programs of this machine.
	Command(preset string) (argv []string, env map[string]string, err error)
}

// withheldTools are tools of presets that are offered only when a server's settings name them:
// this one runs a program outside the page, so it would bypass the rules for commands.
var withheldTools = map[string][]string{
	toolserver.BrowserPreset: {"browser_run_code_unsafe"},
}

// presetProgram returns the program of a server with a preset. The operator configures its
// command and it contains no secret, so it can run in the workspace of any session, as its user.
// It does not receive the session's variables, because web pages can influence a browser.
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
