//go:build linux

package toolbox

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/infra/mcp"
	"everloop/infra/netguard"
	"everloop/infra/sandbox"
)

// The programs are tool servers with the tool report, which says in JSON what the
// server's process has: env, cwd, home (lists of their entries), workspace.
var (
	//go:embed testdata/server.py
	pythonServer string
	//go:embed testdata/server.js
	nodeServer string
)

const adminSecret = "ghp_ADMINONLYSECRET0123456789"

// hostileEnv holds the variables by which the owner of a session tries to load code
// into the processes of tool servers.
var hostileEnv = map[string]string{
	"PYTHONPATH":            "/workspace",
	"PYTHONSTARTUP":         "/workspace/sitecustomize.py",
	"NODE_OPTIONS":          "--require=/workspace/evil.js",
	"NODE_PATH":             "/workspace/node_modules",
	"BASH_ENV":              "/workspace/evil.sh",
	"ENV":                   "/workspace/evil.sh",
	"LD_PRELOAD":            "/workspace/evil.so",
	"HOME":                  "/workspace",
	"PATH":                  "/workspace/bin:/usr/bin:/bin",
	"npm_config_userconfig": "/workspace/.npmrc",
}

const (
	pythonLeak = "import os\nopen('/workspace/leak', 'a').write(repr(dict(os.environ)))\n"
	nodeLeak   = "require('fs').appendFileSync('/workspace/leak', JSON.stringify(process.env))\n"
	shellLeak  = "env >>/workspace/leak\n"
)

// trap is a workspace whose files leak the environment of what loads them.
var trap = map[string]string{
	"sitecustomize.py":              pythonLeak,
	"usercustomize.py":              pythonLeak,
	"json.py":                       pythonLeak + "raise SystemExit(3)\n",
	"evil.js":                       nodeLeak,
	"node_modules/leftpad/index.js": nodeLeak,
	"evil.sh":                       shellLeak,
	".bashrc":                       shellLeak,
	".profile":                      shellLeak,
	".npmrc":                        "script-shell=/workspace/evil.sh\n",
	"evil.so":                       "no library",
	"bin/python3":                   "#!/bin/sh\n" + shellLeak + "exec /usr/bin/python3 \"$@\"\n",
	"bin/node":                      "#!/bin/sh\n" + shellLeak + "exec /usr/bin/node \"$@\"\n",
}

// servers keep what mcp.Manager reads, in memory.
type servers struct {
	root    string
	list    []toolserver.Record
	session domain.Session

	mu     sync.Mutex
	states map[string]toolserver.Connection
}

func (s *servers) SessionMCPServers(context.Context, domain.SessionID) ([]toolserver.Record, error) {
	return s.list, nil
}

func (s *servers) MCPSession(context.Context, domain.SessionID) (domain.Session, error) {
	return s.session, nil
}

func (s *servers) MCPConnections(context.Context, domain.SessionID) ([]toolserver.Connection, error) {
	return nil, nil
}

func (s *servers) SaveMCPConnection(_ context.Context, c toolserver.Connection) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.states[c.Name] = c

	return nil
}

func (s *servers) PinMCPTools(_ context.Context, server toolserver.Record, list []toolserver.Tool) ([]toolserver.Pin, error) {
	return server.Pins(nil, list), nil
}

func (s *servers) Root(context.Context, domain.SessionID, int) (string, error) { return s.root, nil }

type report struct {
	Env       map[string]string
	Cwd, Home []string
	Place     string
	Workspace bool
}

// trapped is a session in a trap, with the servers of list and of a solution's files.
type trapped struct {
	t       *testing.T
	shell   Shell
	records *servers
	manager *mcp.Manager
	profile domain.Profile
}

func newTrapped(t *testing.T, list []toolserver.Record, files []domain.MCPServer) *trapped {
	t.Helper()

	for _, program := range []string{"/usr/bin/python3", "/usr/bin/node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("sandboxes have no " + program)
		}
	}

	box, err := sandbox.New(t.Context(), sandbox.Config{})
	require.NoError(t, err)
	t.Cleanup(box.Close)

	parent, err := os.MkdirTemp("", "toolbox-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	require.NoError(t, os.Chmod(parent, 0o711))
	root, uid := filepath.Join(parent, "workspace"), sandbox.DefaultUserBase+1+os.Getpid()
	require.NoError(t, os.Mkdir(root, 0o700))

	for name, content := range trap {
		at := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(content), 0o755))
	}

	if box.DedicatedUsers() {
		require.NoError(t, exec.Command("chown", "-R", strconv.Itoa(uid), root).Run())
	}

	w := &trapped{t: t, shell: Shell{Sandbox: box}, profile: domain.Profile{MCPServers: files}, records: &servers{
		root: root, list: list, states: map[string]toolserver.Connection{},
		session: domain.Session{ID: "s-1", OwnerID: "ann", SandboxUID: uid, Env: hostileEnv},
	}}
	checks, err := netguard.New(nil, nil)
	require.NoError(t, err)

	w.manager = mcp.NewManager(mcp.Config{
		Store:       w.records,
		Launcher:    w.shell,
		Roots:       w.records,
		HTTP:        mcp.NewGuard(checks),
		Version:     "test",
		Logger:      slog.New(slog.DiscardHandler),
		ConnectTime: time.Minute,
	})
	t.Cleanup(w.manager.Close)

	return w
}

// report asks a server what its process has.
func (w *trapped) report(server string) (got report) {
	w.t.Helper()

	var tool tools.Tool

	require.Eventually(w.t, func() bool {
		for _, offered := range w.manager.Tools(w.t.Context(), tools.Scope{Session: w.records.session, Profile: w.profile}) {
			if offered.Name == "mcp__"+server+"__report" {
				tool = offered
			}
		}

		return tool.Run != nil
	}, time.Minute, 10*time.Millisecond, "%s: %+v", server, w.records.states)
	result, err := tool.Run(w.t.Context(), &tools.Call{ID: "call-1", Arguments: json.RawMessage(`{}`)})
	require.NoError(w.t, err)
	require.False(w.t, result.IsError, result.Output)
	require.NoError(w.t, json.Unmarshal([]byte(result.Output), &got), result.Output)

	return got
}

func stdio(name, scope string, argv ...string) toolserver.Record {
	return toolserver.Record{
		ID: "id-" + name, Scope: toolserver.Scope(scope), OwnerID: "root", Trusted: true,
		MCPServer: domain.MCPServer{
			Name: name, Transport: toolserver.Stdio, Command: argv[0], Args: argv[1:], Enabled: true,
			// Its name looks like no secret, so that it is not masked in results.
			Env: map[string]string{"ADMIN_VALUE": adminSecret},
		},
	}
}

// Secrets of an administrator's and of a solution's server are out of reach of the
// files and the variables of a session.
func TestShell_Launch_keepsServersOfOthersApart(t *testing.T) {
	t.Parallel()

	byShell := []string{"bash", "-c", `exec python3 -c "$0"`, pythonServer}
	list := []toolserver.Record{
		stdio(
			"py",
			"service",
			"python3",
			"-c",
			pythonServer,
		),
		stdio("js", "service", "node", "-e", nodeServer),
		stdio("sh", "service", byShell...),
		stdio("sol", "solution", "python3", "-c", pythonServer),
	}
	fromFiles := stdio("file", "solution", "python3", "-c", pythonServer).MCPServer

	w := newTrapped(t, list, []domain.MCPServer{fromFiles})
	for _, name := range []string{"py", "js", "sh", "sol", "file"} {
		got := w.report(name)
		require.Equal(t, adminSecret, got.Env["ADMIN_VALUE"], "%s has its own variables", name)

		for variable, value := range hostileEnv {
			require.NotEqual(t, value, got.Env[variable], "%s has %s of the session", name, variable)
		}

		require.Equal(t, "/server", got.Env["HOME"])
		require.Equal(t, "/server", got.Place)
		require.Empty(t, got.Cwd, name)
		require.Empty(t, got.Home, name)
		require.False(t, got.Workspace, "%s sees the workspace", name)
	}

	require.NoFileExists(t, filepath.Join(w.records.root, "leak"))

	// While they run, no command of the session finds them.
	var out bytes.Buffer

	exit, err := w.shell.Run(t.Context(), tools.Command{
		Session: tools.SessionView{SandboxUID: w.records.session.SandboxUID, Root: w.records.root}, Stdout: &out, Stderr: &out,
		Argv: []string{"sh", "-c", "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; ls /; echo looked"},
	})
	require.NoError(t, err)
	require.Zero(t, exit.Code)
	require.Contains(t, out.String(), "looked")
	require.NotContains(t, out.String(), adminSecret)
	require.NotContains(t, out.String(), "ADMIN_VALUE")
	require.NotContains(t, out.String(), "tools/list")
}

// A server of the session itself keeps the session's files, variables and user.
func TestShell_Launch_keepsServersOfTheSessionInIt(t *testing.T) {
	t.Parallel()

	own := stdio("own", "session", "/usr/bin/python3", "-I", "-c", pythonServer)
	w := newTrapped(t, []toolserver.Record{own}, nil)
	got := w.report("own")
	require.Equal(t, adminSecret, got.Env["ADMIN_VALUE"])
	require.Equal(t, "/workspace", got.Env["PYTHONPATH"])
	require.Equal(t, "/workspace", got.Place)
	require.Contains(t, got.Home, "evil.sh")
	require.True(t, got.Workspace)
}
