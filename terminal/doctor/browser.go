package doctor

import (
	"context"
	"strings"

	"everloop/infra/sandbox"
)

// browserTools checks the requirements of sessions' browser tools, and starts the browser in
// the sandbox. Everything else works without them.
func browserTools(ctx context.Context, box *sandbox.Sandbox, s Settings) Check {
	check := Check{Name: "browser tools", State: OK}

	if missing := s.Browser.Missing(); len(missing) > 0 {
		var whats, installs []string
		for _, m := range missing {
			whats, installs = append(whats, m.What), append(installs, m.Install)
		}

		check.State, check.Detail = Info, "not found: "+strings.Join(whats, ", ")
		check.Hint = "for the browser tools of sessions: " + strings.Join(installs, "; ")

		if s.Browser.Dir != "" || s.Browser.Program != "" {
			check.State = Warn
		}

		return check
	}

	if !box.Networked() {
		check.State, check.Detail = Warn, "a browser reaches nothing: at this level of the sandbox commands have no network"
		return check
	}

	version, err := inSandbox(ctx, box, s.Browser.Browser(), "--version")
	if err != nil {
		check.State, check.Detail = Warn, "Chromium does not start in the sandbox: "+err.Error()
		check.Hint = "it must be below /usr, or in a directory of SANDBOX_READ_ONLY"

		return check
	}

	if _, err := inSandbox(ctx, box, s.Browser.Server("--version")...); err != nil {
		check.State, check.Detail = Warn, "@playwright/mcp does not start in the sandbox: "+err.Error()
		check.Hint = "it needs Node.js 20 or later in /usr: Debian 13 has it; for Debian 12 see nodejs.org"

		return check
	}

	check.Detail = strings.TrimSpace(version)

	return check
}
