package githost_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/credentials"
	"everloop/companions/githost"
)

// TestMain makes this binary the service of the tests that kill it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("GITHOST_TEST_DIR"); dir != "" {
		serveForTest(dir)
		return
	}

	m.Run()
}

func serveForTest(dir string) {
	listener, err := net.Listen("tcp", os.Getenv("GITHOST_TEST_ADDR"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	service, err := githost.Open(context.Background(), githost.Config{
		Dir:         dir,
		RegistryURL: os.Getenv("GITHOST_TEST_REGISTRY"),
		Credentials: credentials.New(os.Getenv("GITHOST_TEST_AGENT"), ""),
		Memory:      -1,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	fmt.Println(listener.Addr())
	_ = service.Serve(context.Background(), listener)
}

// role is the service as its own process.
type role struct {
	cmd *exec.Cmd
	url string
}

func (w *world) startRole(agent, addr string) *role {
	w.t.Helper()

	r := &role{cmd: exec.Command(os.Args[0])}

	r.cmd.Env = append(
		os.Environ(),
		"GITHOST_TEST_DIR="+w.dir,
		"GITHOST_TEST_REGISTRY="+w.registry,
		"GITHOST_TEST_AGENT="+agent,
		"GITHOST_TEST_ADDR="+addr,
	)
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, r.cmd.Start())
	w.t.Cleanup(r.kill)

	line := make([]byte, 100)
	n, err := out.Read(line)
	require.NoError(w.t, err)

	r.url = "http://" + strings.TrimSpace(string(line[:n]))
	w.url = r.url

	return r
}

// kill ends the process without a warning.
func (r *role) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// TestPush_killedAfterPublication kills the service when the registry has stored a
// version, and the push is not accepted yet.
func TestPush_killedAfterPublication(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "git")}
	target, err := url.Parse(newRegistry(t, agent))
	require.NoError(t, err)

	var (
		killing sync.Once
		running *role
	)

	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.Request.Method == http.MethodPost && answer.StatusCode == http.StatusCreated &&
			strings.HasSuffix(answer.Request.URL.Path, "1.1.0") {
			killing.Do(running.kill)
		}

		return nil
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	w.registry = front.URL

	running = w.startRole(agent, "127.0.0.1:0")
	addr := strings.TrimPrefix(w.url, "http://")
	c := w.skill("acme/tables", "ann", "1.0.0")
	c.must("push", "origin", "main")
	first := c.must("rev-parse", "HEAD")
	c.commit("Next", "SKILL.md", document("tables", "1.1.0", "next"))
	_, ok := c.git("push", "origin", "main")
	require.False(t, ok)
	require.Equal(t, 200, w.version("acme/tables", "1.1.0").status, "it was published")

	// Left by the end of a process that held a lock of a branch.
	repo := filepath.Join(w.dir, "repositories/acme/tables.git")
	require.NoError(t, os.WriteFile(filepath.Join(repo, "refs/heads/main.lock"), nil, 0o600))

	running = w.startRole(agent, addr)
	require.Equal(t, first, w.head("acme/tables", "main"), "it was not accepted")

	left, err := filepath.Glob(filepath.Join(repo, "objects/tmp_objdir-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.Contains(t, c.must("push", "origin", "main"), "1.1.0 is published already with this content")
	require.Equal(t, c.must("rev-parse", "HEAD"), w.head("acme/tables", "main"))
	(&clone{t, repo}).must("fsck", "--strict")

	// One process at a time has the directory.
	once, cancel := context.WithCancel(t.Context())
	cancel() // it does not wait for the other one's end

	_, err = githost.Open(once, githost.Config{Dir: w.dir, RegistryURL: w.registry, Credentials: credentials.New(agent, "")})
	require.ErrorContains(t, err, "another process uses the directory")
	running.kill()
}

// TestPush_clientLeaves ends what runs for a client that has closed its connection.
func TestPush_clientLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *githost.Config) { cfg.Processes = 1 })
	c := w.skill("acme/tables", "ann", "1.0.0")
	c.must("push", "origin", "main")
	require.Empty(t, w.processes())

	ctx, leave := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/acme/tables.git/git-receive-pack", reader)
	require.NoError(t, err)
	request.SetBasicAuth("any", "ann")
	request.Header.Set("Content-Type", "application/x-git-receive-pack-request")

	ended := make(chan struct{})
	go func() {
		defer close(ended)

		if answer, err := http.DefaultClient.Do(request); err == nil {
			answer.Body.Close()
		}
	}()

	line := strings.Repeat("0", 40) + " " + c.must("rev-parse", "HEAD") + " refs/heads/x\x00report-status\n"

	var start bytes.Buffer
	fmt.Fprintf(&start, "%04x%s0000PACK", len(line)+4, line)
	_, err = writer.Write(start.Bytes())
	require.NoError(t, err)

	for len(w.processes()) == 0 { // git waits for the rest of the pack
		require.NoError(t, t.Context().Err())
	}

	leave()
	writer.Close()
	<-ended
	c.must("push", "origin", "HEAD:refs/heads/y") // it gets the only slot
	require.Empty(t, w.processes())
	require.Empty(t, w.head("acme/tables", "x"))
}

// processes returns the ids of git processes that serve the directory.
func (w *world) processes() (ids []string) {
	w.t.Helper()

	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(w.t, err)

	for _, path := range lists {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte("receive-pack")) && bytes.Contains(line, []byte(w.dir)) {
			ids = append(ids, path)
		}
	}

	return ids
}
