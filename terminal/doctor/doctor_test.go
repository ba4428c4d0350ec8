package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/browser"
	"everloop/infra/sandbox"
	"everloop/internal/sharedfs"
)

func only(t *testing.T, checks []Check) Check {
	t.Helper()
	require.Len(t, checks, 1)

	return checks[0]
}

func TestReports(t *testing.T) {
	checks := []Check{
		{Name: "settings", State: OK, Detail: "no faults"},
		{Name: "model", State: Warn, Detail: "demo\nmodel", Hint: "set LLM_GATEWAY_URL"},
		{Name: "MOCK_ADDR", State: Fail, Detail: "taken", Hint: "stop it"},
	}

	var out bytes.Buffer
	require.NoError(t, WriteText(&out, checks, false))
	require.Equal(t, "ok    settings         no faults\nwarn  model            demo model: set LLM_GATEWAY_URL\n"+
		"fail  MOCK_ADDR        taken: stop it\n\n1 to fix before a start, 1 to know.\n", out.String())
	require.True(t, Failed(checks))
	require.False(t, Failed(checks[:2]))

	out.Reset()
	require.NoError(t, WriteText(&out, checks[:1], true))
	require.Equal(t, "\x1b[32mok  \x1b[0m  settings         no faults\n\nReady to start.\n", out.String())

	out.Reset()
	require.NoError(t, WriteJSON(&out, checks))

	var report struct {
		OK     bool
		Checks []Check
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.False(t, report.OK)
	require.Equal(t, checks, report.Checks)
}

func TestSettings_addresses(t *testing.T) {
	type inner struct {
		A string `env:"AGENT_ADDR"`
		X string `env:"S3_ENDPOINT"`
		N int    `env:"NUMBER_ADDR"`
	}

	found := Addresses(struct {
		inner
		M string `env:"MOCK_ADDR"`
	}{inner{A: "a:1", X: "x:2"}, "m:3"})
	require.Equal(t, []Address{{"AGENT_ADDR", "a:1"}, {"MOCK_ADDR", "m:3"}}, found)
}

func TestPorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer taken.Close()

	go func() { // a program that speaks no HTTP
		for {
			c, err := taken.Accept()
			if err != nil {
				return
			}

			c.Close()
		}
	}()

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free.Close()

	ready := http.StatusOK

	everloop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/version" {
			_, _ = w.Write([]byte(`{"version":"2611.0.0","min_sdk":"2611.0.0"}`))
			return
		}

		w.WriteHeader(ready)
		_, _ = w.Write([]byte(`{"checks":["nats","postgres"],"detail":"temporal is down"}`))
	}))
	defer everloop.Close()

	at := func(addr string) Check {
		return only(t, ports(t.Context(), Settings{DataDir: t.TempDir(), Addresses: []Address{{"MOCK_ADDR", addr}}}))
	}
	require.Equal(t, OK, at(free.Addr().String()).State)

	check := at(taken.Addr().String())
	require.Equal(t, Fail, check.State)
	require.Contains(t, check.Detail, "(process "+strconv.Itoa(os.Getpid())+")")
	require.Contains(t, check.Hint, "MOCK_ADDR")

	check = at(everloop.Listener.Addr().String())
	require.Equal(t, OK, check.State)
	require.Contains(t, check.Detail, "Everloop 2611.0.0, ready (nats, postgres)")

	ready = http.StatusServiceUnavailable
	check = at(everloop.Listener.Addr().String())
	require.Equal(t, Fail, check.State)
	require.Contains(t, check.Detail, "temporal is down")

	require.Equal(t, Fail, at("nonsense").State)
	require.Empty(t, ports(t.Context(), Settings{DataDir: t.TempDir(), Addresses: []Address{{"DEBUG_ADDR", ""}}}), "what is not served")
}

func TestDataDirectory(t *testing.T) {
	dir := t.TempDir()
	check := only(t, dataDir(t.Context(), Settings{DataDir: filepath.Join(dir, "a", "b")}))
	require.NotEqual(t, Fail, check.State)
	require.Contains(t, check.Detail, "will be made")
	require.NoDirExists(t, filepath.Join(dir, "a"), "nothing is made")

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, Fail, only(t, dataDir(t.Context(), Settings{DataDir: file})).State)
	require.Equal(t, Fail, only(t, dataDir(t.Context(), Settings{DataDir: filepath.Join(file, "below")})).State)

	lock, err := os.Create(filepath.Join(dir, "lock"))
	require.NoError(t, err)

	defer lock.Close()

	_, err = lock.WriteString("4711\n")
	require.NoError(t, err)
	require.NotContains(t, only(t, dataDir(t.Context(), Settings{DataDir: dir})).Detail, "in use", "a lock without a holder")
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	require.Contains(t, only(t, dataDir(t.Context(), Settings{DataDir: dir})).Detail, "in use by process 4711")

	ExtendedAttributes(dir)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "the probe is gone")
}

func TestPostgresPrograms(t *testing.T) {
	bin := t.TempDir()
	install := func(version string) {
		for name, script := range map[string]string{
			"postgres": "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n", "initdb": "#!/bin/sh\n",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755)) //nolint:gosec // programs
		}
	}
	dataDir := t.TempDir()
	find := func() Check { return only(t, postgresPrograms(t.Context(), dataDir, bin)) }

	require.Contains(t, find().Detail, "no program named postgres")
	install("14.9")
	require.Equal(t, Fail, find().State)
	require.Contains(t, find().Detail, "15 or newer is needed")
	install("17.2")
	require.Equal(t, OK, find().State)
	require.NoError(t, os.MkdirAll(filepath.Join(dataDir, "postgres", "data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, "postgres", "data", "PG_VERSION"), []byte("16\n"), 0o600))
	require.Contains(t, find().Detail, "written by PostgreSQL 16 and only that version can open it, but PostgreSQL [17] was found")
}

// A model server that is not there fails its check, and no secret is shown.
func TestModels_serverThatIsNotThere(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	addr := gone.Addr().String()
	gone.Close()

	check := only(t, model(t.Context(), Settings{ModelURL: "http://user:hunter2@" + addr, ModelKey: "hunter2"}))
	require.Equal(t, Fail, check.State, check.Detail)
	require.NotEmpty(t, check.Hint)
	require.NotContains(t, check.Detail+check.Hint, "hunter2")
}

func TestModels(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		_, _ = w.Write([]byte(`{"data":[{"id":"one"},{"id":"two"}]}`))
	}))
	defer server.Close()

	check := only(t, model(t.Context(), Settings{ModelURL: server.URL, ModelKey: "right"}))
	require.Equal(t, OK, check.State, check.Detail)
	require.True(t, strings.HasSuffix(check.Detail, "one, two"), check.Detail)
	require.Equal(t, Fail, only(t, model(t.Context(), Settings{ModelURL: server.URL, ModelKey: "wrong"})).State)
	check = only(t, model(t.Context(), Settings{ModelURL: server.URL, ModelKey: "right", Model: "three"}))
	require.Equal(t, Fail, check.State)
	require.Contains(t, check.Hint, "one, two")
	require.Equal(t, Warn, only(t, model(t.Context(), Settings{})).State, "the demo model")
}

// TestModel_loadedWindow holds that the doctor warns of an Ollama server that has loaded a
// model with a smaller window than is expected.
func TestModel_loadedWindow(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/ps" {
			_, _ = w.Write([]byte(`{"models":[{"name":"one:latest","context_length":4096},{"name":"two:latest","context_length":32768}]}`))
			return
		}

		_, _ = w.Write([]byte(`{"data":[{"id":"one:latest"},{"id":"two:latest"},{"id":"three:latest"}]}`))
	}))
	defer server.Close()

	checks := model(t.Context(), Settings{ModelURL: server.URL + "/v1", ContextWindow: 32_768})
	require.Len(t, checks, 2)
	require.Equal(t, OK, checks[0].State)
	require.Equal(t, Warn, checks[1].State)
	require.Equal(t, "one:latest is loaded with 4096 tokens, and 32768 are expected", checks[1].Detail)
}

// The whole report on this machine: every part reports, and the sandbox was tried.
func TestRun_wholeReport(t *testing.T) {
	checks := Run(t.Context(), Settings{
		DataDir: t.TempDir(), Sandbox: sandbox.Config{MinLevel: 1}, Faults: []string{"AGENT_ADDR must be host:port"},
		Engines: []Engine{func(context.Context) []Check { return one("engine", OK, "embedded", "") }},
	})

	seen := map[string]State{}
	for _, c := range checks {
		seen[c.Name] = c.State
		require.NotEmpty(t, c.Detail, c.Name)
	}

	for _, name := range []string{"settings", "data directory", "engine", "model", "sandbox", "limits of commands", "git", "clock"} {
		require.Contains(t, seen, name)
	}

	require.Equal(t, Fail, seen["settings"])

	if seen["sandbox"] != Fail {
		require.Contains(t, seen, "ripgrep")
		require.Contains(t, seen, "user separation")
	}
}

// A tool server that does not run on the machine's Node.js says so in the report.
func TestBrowserTools_theServerDoesNotStart(t *testing.T) {
	t.Parallel()

	dir, err := os.MkdirTemp("/var/tmp", "everloop-browser-") // sandboxes have a /tmp of their own
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))

	server := filepath.Join(dir, "node_modules/@playwright/mcp/cli.js")
	require.NoError(t, os.MkdirAll(filepath.Dir(server), 0o755))
	require.NoError(t, os.WriteFile(server, []byte("console.error('This needs\\na later Node.js'); process.exit(1);"), 0o644))

	tools := browser.Tools{Dir: dir, Program: "/usr/bin/true"}

	box, err := sandbox.New(t.Context(), sandbox.Config{WarmMax: -1, ReadOnly: tools.Shown()})
	require.NoError(t, err)
	t.Cleanup(box.Close)

	check := browserTools(t.Context(), box, Settings{Browser: tools})
	require.Equal(t, Warn, check.State, check.Detail)
	require.Contains(t, check.Detail, "This needs a later Node.js")
	require.Contains(t, check.Hint, "Node.js 20")
}

func TestWorkspaces(t *testing.T) {
	s := Settings{DataDir: filepath.Join(t.TempDir(), "data")} // still to be made
	find := func(as sharedfs.Simulation) map[string]Check {
		defer sharedfs.Simulate(as)()

		out := map[string]Check{}
		for _, check := range workspaces(t.Context(), s) {
			out[check.Name] = check
		}

		return out
	}
	checks := find(sharedfs.Simulation{})
	require.Equal(t, OK, checks["workspace names"].State, checks)
	require.Equal(t, OK, checks["workspace locks"].State, checks)
	require.Equal(t, OK, checks["workspace clock"].State, checks)
	require.NoDirExists(t, s.DataDir, "nothing is made")

	checks = find(sharedfs.Simulation{NoRenameFlags: true, NoLocks: true, CachesAttributes: true, Mount: "1 1 0:1 / / rw - nfs4 s:/ rw"})
	require.Equal(t, Info, checks["workspace names"].State)
	require.Equal(t, Fail, checks["workspace locks"].State)
	require.Contains(t, checks["workspace locks"].Hint, "nolock")
	require.Equal(t, Warn, checks["workspace fs"].State)
	require.Contains(t, checks["workspace fs"].Hint, "actimeo=1")

	require.NoError(t, os.Mkdir(s.DataDir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.DataDir, "workspace"), nil, 0o600))
	check := only(t, workspaces(t.Context(), s))
	require.Equal(t, Fail, check.State)
	require.NotEmpty(t, check.Hint)
}

func TestDescribeVersions(t *testing.T) {
	checks := describeVersions("worker versions", domain.WorkerDeployment{Versions: []domain.WorkerVersion{
		{BuildID: "new", Status: domain.VersionCurrent, Workers: 2},
		{BuildID: "old", Status: domain.VersionDrained, Workers: 1},
		{BuildID: "past", Status: domain.VersionDrained},
		{Status: domain.VersionInactive, Workers: 1},
	}})
	require.Equal(t, []Check{
		{Name: "worker versions", State: Info, Detail: "new: current, 2 workers"},
		{Name: "worker versions", State: Info, Detail: "old: drained, 1 workers", Hint: "its workers may be stopped"},
		{Name: "worker versions", State: Info, Detail: "unversioned: inactive, 1 workers"},
	}, checks)

	lost := describeVersions(
		"worker versions", domain.WorkerDeployment{Versions: []domain.WorkerVersion{{BuildID: "new", Status: domain.VersionCurrent}}},
	)
	require.Equal(t, Warn, lost[0].State)
}
