package app

import (
	"errors"
	"path/filepath"

	"everloop/infra/browser"
	"everloop/infra/sandbox"
)

// browserSettings say where the browser tools of this machine are.
type browserSettings struct {
	BrowserToolsDir string `help:"Directory in which npm installed @playwright/mcp, for the browser tools of sessions; default: /usr/local/lib/everloop/browser, if it is there."`
}

func (s *browserSettings) check() error {
	if s.BrowserToolsDir != "" && !filepath.IsAbs(s.BrowserToolsDir) {
		return errors.New("--browser-tools-dir must be an absolute path")
	}

	return nil
}

// browserTools are those of the machine, used or not.
func (s *browserSettings) browserTools() browser.Tools {
	return browser.Tools{Dir: s.BrowserToolsDir, Proxy: sandbox.ProxyURL}
}

// shownDirs returns the directories that commands may read in addition to the system's.
func (s *settings) shownDirs() []string {
	return append(s.SandboxReadOnly[:len(s.SandboxReadOnly):len(s.SandboxReadOnly)], s.browserTools().Shown()...)
}
