//go:build linux

package toolbox

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/egress"
	"everloop/infra/mcp"
	"everloop/infra/netguard"
	"everloop/infra/sandbox"
)

// networked is a session whose commands have a network with these rules, in which
// example.com is a server on the loopback.
type networked struct {
	t     *testing.T
	shell Shell
	view  tools.SessionView
	port  string
	rules atomic.Pointer[domain.NetworkPolicy]
}

// NetworkPolicy implements tools.NetworkPolicies.
func (n *networked) NetworkPolicy(_ context.Context, sessionID domain.SessionID) (domain.NetworkPolicy, error) {
	if sessionID != n.view.ID {
		return domain.NetworkPolicy{}, domain.SessionNotFound(sessionID)
	}

	return *n.rules.Load(), nil
}

func (n *networked) allow(patterns ...string) {
	var rules []domain.PermissionRule
	for _, pattern := range patterns {
		rules = append(rules, domain.PermissionRule{Tool: domain.NetworkTool, Pattern: pattern, Decision: domain.PermissionAllow})
	}

	policy := domain.NewNetworkPolicy(domain.NetworkRules, rules)
	n.rules.Store(&policy)
}

func newNetworked(t *testing.T, server *httptest.Server) *networked {
	t.Helper()
	box, err := sandbox.New(t.Context(), sandbox.Config{MinLevel: sandbox.Namespaced})
	require.NoError(t, err)
	t.Cleanup(box.Close)

	parent, err := os.MkdirTemp("", "everloop-network-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	require.NoError(t, os.Chmod(parent, 0o711))
	n := &networked{t: t, view: tools.SessionView{ID: "session-1", SandboxUID: 100_733, Root: filepath.Join(parent, "w")}}
	require.NoError(t, os.Mkdir(n.view.Root, 0o777))
	require.NoError(t, os.Chmod(n.view.Root, 0o777))

	guard, err := netguard.New([]string{"example.com"}, nil)
	require.NoError(t, err)

	n.shell = Shell{Sandbox: box, Policies: n, Proxy: egress.New(egress.Config{Guard: guard, Resolver: loopbackResolver(t)})}
	if server != nil {
		_, n.port, err = net.SplitHostPort(server.Listener.Addr().String())
		require.NoError(t, err)

		if cert := server.Certificate(); cert != nil {
			text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
			require.NoError(t, os.WriteFile(filepath.Join(n.view.Root, "ca.pem"), text, 0o644))
		}
	}

	n.allow("example.com:" + n.port)

	return n
}

// loopbackResolver answers every name with 127.0.0.1.
func loopbackResolver(t *testing.T) *net.Resolver {
	t.Helper()

	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })

	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}

			_, _ = server.WriteTo(loopbackAnswer(buf[:n]), from)
		}
	}()

	at := server.LocalAddr().String()

	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", at)
	}}
}

func (n *networked) bash(script string) (string, tools.Exit) {
	n.t.Helper()

	var out bytes.Buffer

	ctx, cancel := context.WithTimeout(n.t.Context(), 3*time.Minute)
	defer cancel()

	exit, err := n.shell.Run(ctx, tools.Command{Session: n.view, Argv: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
	require.NoError(n.t, err, out.String())

	return out.String(), exit
}

func needs(t *testing.T, programs ...string) {
	t.Helper()

	for _, program := range programs {
		if path, err := exec.LookPath(program); err != nil || !strings.HasPrefix(path, "/usr/") {
			t.Skip("sandboxes have no " + program)
		}
	}
}

func TestShell_Run_gitOverHTTPS(t *testing.T) {
	t.Parallel()
	needs(t, "git")

	root := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", root + "/source"},
		{"-C", root + "/source", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"},
		{"clone", "-q", "--bare", root + "/source", root + "/project.git"},
		{"-C", root + "/project.git", "config", "http.receivepack", "true"},
	} {
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}

	core, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)

	server := httptest.NewTLSServer(&cgi.Handler{
		Path: strings.TrimSpace(
			string(core),
		) + "/git-http-backend",
		Env: []string{
			"GIT_PROJECT_ROOT=" + root,
			"GIT_HTTP_EXPORT_ALL=1",
			"GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory",
			"GIT_CONFIG_VALUE_0=*",
		},
	})
	t.Cleanup(server.Close)
	n := newNetworked(t, server)
	out, exit := n.bash(`export GIT_SSL_CAINFO=$PWD/ca.pem
		git clone -q https://example.com:` + n.port + `/project.git && cd project && git log --oneline &&
		git -c user.name=a -c user.email=a@b commit -q --allow-empty -m second && git push -q origin main && git fetch -v 2>&1 | tail -1`)
	require.Zero(t, exit.Code, out)
	require.Contains(t, out, "first")
	require.Len(t, exit.Connections, 1)
	require.Equal(t, "example.com", exit.Connections[0].Host)
	require.Equal(t, domain.ConnectionAllowed, exit.Connections[0].Decision)
	require.Greater(t, exit.Connections[0].BytesReceived, int64(1000))

	out, exit = n.bash("git ls-remote https://elsewhere.test/project.git; git ls-remote git://example.com/project.git")
	require.NotZero(t, exit.Code)
	require.Contains(t, out, "403")
	require.Equal(t, "elsewhere.test", exit.Connections[0].Host)
	require.Equal(t, domain.NoNetworkRule, exit.Connections[0].Reason)
}

// npmRegistry returns a registry with one package.
func npmRegistry(t *testing.T) *httptest.Server {
	t.Helper()

	var packed bytes.Buffer

	zipped := gzip.NewWriter(&packed)

	files := tar.NewWriter(zipped)
	for name, text := range map[string]string{"package/package.json": `{"name":"greeting","version":"1.0.0","main":"index.js"}`, "package/index.js": `module.exports = "hello from the registry"`} {
		require.NoError(t, files.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644}))
		_, _ = io.WriteString(files, text)
	}

	require.NoError(t, files.Close())
	require.NoError(t, zipped.Close())

	sum := sha512.Sum512(packed.Bytes())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/greeting":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(
				w,
				`{"name":"greeting","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"greeting","version":"1.0.0","dist":{"tarball":"http://%s/greeting.tgz","integrity":"sha512-%s"}}}}`,
				r.Host,
				base64.StdEncoding.EncodeToString(sum[:]),
			)
		case "/greeting.tgz":
			_, _ = w.Write(packed.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)

	return server
}

func TestShell_Run_npmInstall(t *testing.T) {
	t.Parallel()
	needs(t, "npm", "node")
	n := newNetworked(t, npmRegistry(t))
	out, exit := n.bash(
		`npm install --no-audit --no-fund --no-update-notifier --registry http://example.com:` + n.port + ` greeting && node -p 'require("greeting")'`,
	)
	require.Zero(t, exit.Code, out)
	require.Contains(t, out, "hello from the registry")
	require.Equal(t, "example.com", exit.Connections[0].Host)
}

func TestShell_Run_goModule(t *testing.T) {
	t.Parallel()
	needs(t, "go")

	var packed bytes.Buffer

	files := zip.NewWriter(&packed)

	const mod = "module example.test/greeting\n\ngo 1.20\n"
	for name, text := range map[string]string{"go.mod": mod, "greeting.go": "package greeting\n\nconst Text = \"hello from the module " +
		"proxy\"\n"} {
		file, err := files.Create("example.test/greeting@v1.0.0/" + name)
		require.NoError(t, err)

		_, _ = io.WriteString(file, text)
	}

	require.NoError(t, files.Close())

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/example.test/greeting/@v/list":
			_, _ = io.WriteString(w, "v1.0.0\n")
		case "/example.test/greeting/@v/v1.0.0.info":
			_, _ = io.WriteString(w, `{"Version":"v1.0.0"}`)
		case "/example.test/greeting/@v/v1.0.0.mod":
			_, _ = io.WriteString(w, mod)
		case "/example.test/greeting/@v/v1.0.0.zip":
			_, _ = w.Write(packed.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	n := newNetworked(t, server)
	out, exit := n.bash(
		`export PATH=$PATH:/usr/local/go/bin GOPROXY=http://example.com:` + n.port + ` GONOSUMDB='*' GOFLAGS=-mod=mod GOTOOLCHAIN=local
		go mod init here 2>/dev/null && go mod download -x example.test/greeting@v1.0.0 && cat ~/go/pkg/mod/example.test/greeting@v1.0.0/greeting.go; chmod -R u+w ~/go`,
	)
	require.Zero(t, exit.Code, out)
	require.Contains(t, out, "hello from the module proxy")
	require.Equal(t, "example.com", exit.Connections[0].Host)
}

// A command that is stopped in the middle of a download leaves no connection, and
// what it did is still shown.
func TestShell_Run_stoppedDownload(t *testing.T) {
	t.Parallel()
	needs(t, "curl")

	started, gone := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)

		_, _ = w.Write(make([]byte, 64<<10))
		_ = http.NewResponseController(w).Flush()

		close(started)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	n := newNetworked(t, server)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	go func() {
		<-started
		stop()
	}()

	exit, err := n.shell.Run(ctx, tools.Command{Session: n.view, Argv: []string{"curl", "-sS", "http://example.com:" + n.port + "/"}})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, exit.Connections, 1)

	select {
	case <-gone:
	case <-time.After(time.Minute):
		require.Fail(t, "the connection outlived its command")
	}
}

// A tool server on standard input and output has the network of the session.
func TestShell_Launch_network(t *testing.T) {
	t.Parallel()
	needs(t, "curl")

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached") }))
	t.Cleanup(server.Close)

	n := newNetworked(t, server)
	for name, session := range map[string]*tools.SessionView{"of the session": &n.view, "private": nil} {
		var out bytes.Buffer

		process, err := n.shell.Launch(t.Context(), mcp.Program{
			SessionID: n.view.ID, Session: session, Stdout: &out, Stderr: &out,
			Argv: []string{"bash", "-c", "curl -sS http://example.com:" + n.port + "/; curl -sS -o /dev/null -w ' %{http_code}' " +
				"http://elsewhere.test/"},
		})
		require.NoError(t, err)
		<-process.Done()
		require.Equal(t, "reached 403", out.String(), name)
	}
}

func TestShell_Run_withoutProxy(t *testing.T) {
	t.Parallel()
	n := newNetworked(t, nil)
	n.shell.Proxy = nil
	out, exit := n.bash("echo ${http_proxy:-none}; exec 3<>/dev/tcp/127.0.0.1/3128")
	require.NotZero(t, exit.Code)
	require.Contains(t, out, "none\n")
	require.Empty(t, exit.Connections)
}

// loopbackAnswer answers a question of DNS with 127.0.0.1, one for another type of
// address with nothing.
func loopbackAnswer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) == 0 {
		return nil
	}

	m.Header.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}

	answer, _ := m.Pack()

	return answer
}
