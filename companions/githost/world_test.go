package githost_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/credentials"
	"everloop/companions/githost"
)

// unknownCommit is an id that no commit of a test has.
const unknownCommit = "1234567890123456789012345678901234567890"

// callers are who the agent of the tests knows.
var callers = map[string]string{
	"Bearer ann":    `{"id":"ann","username":"ann","scopes":null}`,
	"Bearer bob":    `{"id":"bob","username":"bob","scopes":["skills:write"]}`,
	"Bearer reader": `{"id":"ann","username":"ann","scopes":["skills"]}`,
}

// newAgent returns an agent that knows the callers.
func newAgent(t *testing.T) string {
	t.Helper()

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known, ok := callers[r.Header.Get("Authorization")]
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		_, _ = io.WriteString(w, known)
	}))
	t.Cleanup(agent.Close)

	return agent.URL
}

// world is git hosting with a registry.
type world struct {
	t        *testing.T
	url      string
	registry string
	dir      string // of git hosting

	unbounded bool // the memory of git is not limited
}

// newWorld starts a service with some of its configuration changed.
func newWorld(t *testing.T, change func(cfg *githost.Config)) *world {
	t.Helper()
	agent := newAgent(t)
	w := &world{t: t, registry: newRegistry(t, agent), dir: filepath.Join(t.TempDir(), "git")}
	// The race detector needs more memory than a git process may have: the hook is the
	// built program, as it is where the service is used.
	cfg := githost.Config{
		Dir: w.dir, RegistryURL: w.registry, Credentials: credentials.New(agent, ""), Program: os.Getenv("EVERLOOP_BIN"),
	}
	if cfg.Program == "" {
		w.unbounded, cfg.Memory = true, -1
	}

	if change != nil {
		change(&cfg)
	}

	service, err := githost.Open(t.Context(), cfg)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))

	ended := make(chan error, 1)
	go func() { ended <- service.Serve(ctx, listener) }()

	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})

	w.url = "http://" + listener.Addr().String()

	return w
}

// remote returns the URL of a repository with a token.
func (w *world) remote(repo, token string) string {
	if token == "" {
		return w.url + "/" + repo + ".git"
	}

	return strings.Replace(w.url, "://", "://any:"+token+"@", 1) + "/" + repo + ".git"
}

// clone is a working copy.
type clone struct {
	t   *testing.T
	dir string
}

// gitEnv returns the environment of clients.
func gitEnv(further ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ann",
		"GIT_AUTHOR_EMAIL=ann@example.org",
		"GIT_COMMITTER_NAME=Ann",
		"GIT_COMMITTER_EMAIL=ann@example.org",
		"LANG=C.UTF-8",
	}, further...)
}

// git runs a client and returns what it writes, and whether it ended well.
func (c *clone) git(args ...string) (string, bool) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = c.dir, gitEnv()

	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		require.NoError(c.t, err)
	}

	return string(out), err == nil
}

// must runs a client that has to succeed.
func (c *clone) must(args ...string) string {
	c.t.Helper()
	out, ok := c.git(args...)
	require.True(c.t, ok, "git %s: %s", strings.Join(args, " "), out)

	return strings.TrimSpace(out)
}

// refused runs a client that has to fail with a text.
func (c *clone) refused(text string, args ...string) {
	c.t.Helper()
	out, ok := c.git(args...)
	require.False(c.t, ok, "git %s: %s", strings.Join(args, " "), out)
	require.Contains(c.t, out, text)
}

func (c *clone) write(name, content string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(c.t, os.WriteFile(path, []byte(content), 0o644))
}

// commit makes a commit of files and contents.
func (c *clone) commit(message string, files ...string) {
	c.t.Helper()

	for i := 0; i < len(files); i += 2 {
		c.write(files[i], files[i+1])
	}

	c.must("add", "--all")
	c.must("commit", "--quiet", "--allow-empty", "-m", message)
}

// newClone returns a new working copy without commits, whose origin is a repository.
func (w *world) newClone(repo, token string) *clone {
	w.t.Helper()
	c := &clone{w.t, w.t.TempDir()}
	c.must("init", "--quiet", "--initial-branch=main")
	c.must("remote", "add", "origin", w.remote(repo, token))

	return c
}

func document(name, version, text string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: What it is for.\nmetadata:\n  version: %s\n---\n%s\n", name, version, text)
}

// skill makes a working copy with one commit of a valid skill.
func (w *world) skill(repo, token, version string) *clone {
	w.t.Helper()
	c := w.newClone(repo, token)
	_, name, _ := strings.Cut(repo, "/")
	c.commit("Start", "SKILL.md", document(name, version, "one"))

	return c
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func (r response) json(t *testing.T) map[string]any {
	t.Helper()

	var fields map[string]any
	require.NoError(t, json.Unmarshal(r.body, &fields), string(r.body))

	return fields
}

func (w *world) send(method, address, token string, header map[string]string, body []byte) response {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, address, bytes.NewReader(body))
	require.NoError(w.t, err)

	if token != "" {
		request.SetBasicAuth("any", token)
	}

	for name, value := range header {
		request.Header.Set(name, value)
	}

	answer, err := http.DefaultClient.Do(request)
	require.NoError(w.t, err)

	defer answer.Body.Close()

	data, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)

	return response{answer.StatusCode, answer.Header, data}
}

func (w *world) get(path string) response { return w.send(http.MethodGet, w.url+path, "", nil, nil) }

// version returns what the registry has of a version.
func (w *world) version(skill, version string) response {
	return w.send(http.MethodGet, w.registry+"/skills/"+skill+"/versions/"+version, "", nil, nil)
}
