package app

import (
	"errors"
	"fmt"
	"path/filepath"

	"everloop/infra/browser"
	"everloop/infra/sandbox"
)

// browserSettings say where the browser tools of this machine are.
type browserSettings struct {
	BrowserToolsDir string `env:"BROWSER_TOOLS_DIR" help:"Directory in which npm installed @playwright/mcp, for the browser tools of sessions; default: /usr/local/lib/everloop/browser, if it is there."`
	BrowserPath     string `env:"BROWSER_PATH" help:"Chromium for the browser tools; default: where distributions install it."`
}

func (s *browserSettings) check() error {
	var faults []error

	for _, set := range []struct{ variable, path string }{
		{"BROWSER_TOOLS_DIR", s.BrowserToolsDir}, {"BROWSER_PATH", s.BrowserPath},
	} {
		if set.path != "" && !filepath.IsAbs(set.path) {
			faults = append(faults, fmt.Errorf("%s must be an absolute path", set.variable))
		}
	}

	return errors.Join(faults...)
}

// browserTools are those of the machine, used or not.
func (s *browserSettings) browserTools() browser.Tools {
	return browser.Tools{Dir: s.BrowserToolsDir, Program: s.BrowserPath, Proxy: sandbox.ProxyURL}
}

// shownDirs are the directories that commands may read besides the system's.
func (s *settings) shownDirs() []string {
	return append(s.SandboxReadOnly[:len(s.SandboxReadOnly):len(s.SandboxReadOnly)], s.browserTools().Shown()...)
}
