package sio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/realtime/sio"
)

var transportSettings = []string{"polling", "websocket", "upgrade"}

// client runs a scenario of testdata/js/client.mjs and returns its result.
func client(t *testing.T, scenario, addr, setting string) map[string]any {
	t.Helper()
	run := startClient(t, scenario, addr, setting)

	return run.result(t)
}

type clientRun struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr *strings.Builder
}

func startClient(t *testing.T, scenario, addr, setting string) *clientRun {
	t.Helper()
	installClient(t)

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)

	cmd := exec.CommandContext(ctx, "node", "testdata/js/client.mjs", scenario, "http://"+addr, setting)

	var stderr strings.Builder

	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)

	return &clientRun{cmd, lines, &stderr}
}

func (r *clientRun) line(t *testing.T) map[string]any {
	t.Helper()

	if !r.lines.Scan() {
		_ = r.cmd.Wait()
		t.Fatalf("the client failed: %s", r.stderr)
	}

	var result map[string]any
	require.NoError(t, json.Unmarshal(r.lines.Bytes(), &result))

	return result
}

func (r *clientRun) result(t *testing.T) map[string]any {
	t.Helper()
	result := r.line(t)
	require.NoError(t, r.cmd.Wait(), r.stderr.String())

	return result
}

var installOnce sync.Once

// installClient runs npm ci when the client is not there, one process at a time.
func installClient(t *testing.T) {
	t.Helper()

	if testing.Short() {
		t.Skip("needs node and npm")
	}

	var failure error

	installOnce.Do(func() {
		dir := "testdata/js"

		lock, err := os.Open(dir)
		if err != nil {
			failure = err
			return
		}
		defer lock.Close()

		if failure = unix.Flock(int(lock.Fd()), unix.LOCK_EX); failure != nil {
			return
		}

		if _, err := os.Stat(filepath.Join(dir, "node_modules", "socket.io-client", "package.json")); err == nil {
			return
		}

		cmd := exec.Command("npm", "ci", "--no-fund", "--no-audit")

		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("npm ci: %s", out)

			failure = err
		}
	})
	require.NoError(t, failure)
}

func everySetting(t *testing.T, fn func(t *testing.T, setting string)) {
	for _, setting := range transportSettings {
		t.Run(setting, func(t *testing.T) { fn(t, setting) })
	}
}

func code(answer any) string {
	m, _ := answer.(map[string]any)
	e, _ := m["error"].(map[string]any)
	text, _ := e["code"].(string)

	return text
}

func TestOfficialClientEcho(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	everySetting(t, func(t *testing.T, setting string) {
		got := client(t, "echo", addr, setting)

		want := setting
		if setting == "upgrade" {
			want = "websocket"
		}

		require.Equal(t, want, got["transport"])
		require.Equal(t, map[string]any{"ok": true, "payload": nil}, got["none"])
	})
}

func TestOfficialClientRefused(t *testing.T) {
	addr, server := start(t, sio.Options{})
	everySetting(t, func(t *testing.T, setting string) {
		got := client(t, "refused", addr, setting)
		require.Equal(t, "unauthorized", got["message"])
		require.Equal(t, map[string]any{"code": "unauthorized"}, got["data"])
		require.Equal(t, true, got["answer"].(map[string]any)["ok"])
	})
	require.EqualValues(t, 3, server.Stats().Refused)

	got := client(t, "refusal", addr, "websocket")
	require.Equal(t, "dependency_down", got["message"])
	require.Equal(t, map[string]any{"code": "dependency_down", "retryable": true}, got["data"])
}

func TestOfficialClient_otherNamespace(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	everySetting(t, func(t *testing.T, setting string) {
		require.Equal(t, "Invalid namespace", client(t, "namespace", addr, setting)["message"])
	})
}

func TestOfficialClient_burstInOrder(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	everySetting(t, func(t *testing.T, setting string) {
		got := client(t, "burst", addr, setting)
		require.EqualValues(t, 2000, got["queued"])
		require.Equal(t, true, got["out"], "events to the client")
		require.Equal(t, true, got["in"], "events from the client")
	})
}

func TestOfficialClient_largeMessages(t *testing.T) {
	addr, _ := start(t, sio.Options{BufferLimit: 16 << 20})
	everySetting(t, func(t *testing.T, setting string) {
		got := client(t, "large", addr, setting)
		require.Equal(t, []any{70 * 1024.0, 900 * 1024.0, 9 * 1024 * 1024.0}, got["sizes"])
		require.Equal(t, sio.FaultTooLarge, code(got["over"]))
		require.Equal(t, true, got["after"].(map[string]any)["ok"])
	})
}

func TestOfficialClientFaults(t *testing.T) {
	addr, server := start(t, sio.Options{})
	everySetting(t, func(t *testing.T, setting string) {
		got := client(t, "faults", addr, setting)
		require.Equal(t, []any{
			sio.FaultNotObject, sio.FaultNotObject, sio.FaultNotObject, sio.FaultArguments,
			sio.FaultBinary, "unknown_event", "internal_error", "internal_error",
		}, got["codes"])
		require.Equal(t, sio.FaultNotObject, got["reported"])
	})
	require.EqualValues(t, 3, server.Stats().Panics)
}

func TestOfficialClient_close(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	everySetting(t, func(t *testing.T, setting string) {
		require.Equal(t, "io server disconnect", client(t, "kicked", addr, setting)["reason"])
	})
}

func TestOfficialClient_serverStops(t *testing.T) {
	everySetting(t, func(t *testing.T, setting string) {
		handler := newRecorder()
		addr, server := start(t, sio.Options{Handler: handler})
		run := startClient(t, "wait", addr, setting)
		run.line(t)
		id := handler.conn(t).ID()

		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		require.NoError(t, server.Close(ctx))
		require.Equal(t, "transport close", run.result(t)["reason"])
		require.Equal(t, "server shutting down", handler.disconnected[id])
	})
}

func TestOfficialClient_upgradeUnderLoad(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	for range 5 {
		got := client(t, "upgradeUnderLoad", addr, "upgrade")
		require.Equal(t, "websocket", got["transport"])
		require.Equal(t, true, got["inOrder"])
	}
}
