// Package browser finds the browser tools of this machine: the tool server
// @playwright/mcp as npm installed it, Chromium and Node.js. It knows their command line
// in a sandbox of a session. It must not know sessions, tool calls or how programs run.
package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"everloop/domain/toolserver"
)

// Version is the version of the package @playwright/mcp that goes with the command line
// here; build/browser/package.json pins the same.
const Version = "0.0.83"

// DefaultDir is where the tool server is looked for when no directory is set. Sandboxes
// see it as they see everything of /usr.
const DefaultDir = "/usr/local/lib/everloop/browser"

const (
	server = "node_modules/@playwright/mcp/cli.js"
	// output is where the server keeps screenshots, downloads and what it says of pages,
	// in the workspace that it is started in.
	output = "browser"
	// maxOutput is from where on the server removes the oldest of what it kept, in bytes.
	maxOutput = 256 << 20
)

// programs are the places of Chromium. The programs themselves come before the scripts that
// distributions put in front of them, which read files that a sandbox does not show.
var programs = []string{
	"/usr/lib/chromium/chromium", "/usr/lib64/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser",
	"/usr/lib/chromium-browser/chromium-browser", "/usr/bin/chromium", "/usr/bin/chromium-browser",
}

// nodes are the places of Node.js that a sandbox shows.
var nodes = []string{"/usr/local/bin/node", "/usr/bin/node"}

// Tools are the browser tools as the settings name them.
type Tools struct {
	Dir     string // with the node_modules of the tool server; empty: DefaultDir
	Program string // Chromium; empty: where distributions have it
	Proxy   string // the address at which the browser finds the proxy of its sandbox

	programs, nodes []string // where they are looked for; nil: where distributions have them
}

// Missing is a part of the browser tools that this machine does not have.
type Missing struct {
	What    string // in words
	Install string // the command that installs it, or what to set
}

// parts are the files that were found, empty where there is none.
type parts struct{ node, server, program string }

func (t Tools) dir() string {
	if t.Dir == "" {
		return DefaultDir
	}

	return t.Dir
}

func (t Tools) find() parts {
	look, node := t.programs, t.nodes
	if look == nil {
		look = programs
	}

	if node == nil {
		node = nodes
	}

	if t.Program != "" {
		look = []string{t.Program}
	}

	return parts{node: first(node, 0o111), server: first([]string{filepath.Join(t.dir(), server)}, 0o444), program: first(look, 0o111)}
}

// first returns the first path with a regular file that has one of the rights.
func first(paths []string, rights os.FileMode) string {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&rights != 0 {
			return path
		}
	}

	return ""
}

// Missing lists what is not there; nothing means that the tools can be used.
func (t Tools) Missing() []Missing {
	var list []Missing

	found := t.find()
	if found.node == "" {
		list = append(list, Missing{"Node.js in /usr", "apt-get install nodejs npm"})
	}

	if found.server == "" {
		list = append(list, Missing{
			"@playwright/mcp in " + t.dir(), fmt.Sprintf("npm install --prefix %s --save-exact @playwright/mcp@%s", t.dir(), Version),
		})
	}

	switch {
	case found.program == "" && t.Program != "":
		list = append(list, Missing{"the program " + t.Program, "install Chromium there"})
	case found.program == "":
		list = append(list, Missing{"Chromium", "apt-get install chromium"})
	}

	return list
}

// Server returns the command line of the tool server with these arguments.
func (t Tools) Server(args ...string) []string {
	found := t.find()
	return append([]string{found.node, found.server}, args...)
}

// Browser returns the path of Chromium; empty: there is none.
func (t Tools) Browser() string { return t.find().program }

// Shown returns the directories that sandboxes have to show in addition to the system's.
func (t Tools) Shown() []string {
	modules := filepath.Join(t.dir(), "node_modules")
	if strings.HasPrefix(filepath.Clean(modules), "/usr/") || t.find().server == "" {
		return nil
	}

	return []string{modules}
}

// Command implements mcp.Presets.
func (t Tools) Command(preset string) (argv []string, env map[string]string, err error) {
	if preset != toolserver.BrowserPreset {
		return nil, nil, fmt.Errorf("this worker does not know the preset %q", preset)
	}

	if missing := t.Missing(); len(missing) > 0 {
		names := make([]string, len(missing))
		for i, m := range missing {
			names[i] = m.What
		}

		return nil, nil, fmt.Errorf("the browser tools are not installed on this machine, there is no %s: see everloop doctor",
			strings.Join(names, ", no "))
	}

	return t.Server(
		"--browser", "chromium", "--executable-path", t.Browser(),
		"--headless", "--isolated", "--block-service-workers",
		"--no-sandbox",                                             // it cannot make one within ours
		"--proxy-server", t.Proxy, "--proxy-bypass", "<-loopback>", // not even the own host is reached past the proxy
		"--output-dir", output, "--output-max-size", strconv.Itoa(maxOutput),
		"--image-responses", "allow",
	), map[string]string{"HOME": "/tmp"}, nil // profile, caches and settings go with the process
}
