package terminal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const testKey = "el_terminal0test0key0terminal0test0key0"

// program is a running `everloop up` and the environment to talk to it.
type program struct {
	t       *testing.T
	binary  string
	environ []string
	url     string
	up      *exec.Cmd
	done    chan struct{}
	log     *output
}

// output collects what a process writes, and wakes those who wait for a text.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()

	return o.text.String()
}

// buildBinary returns the path of the program under test.
func buildBinary(t *testing.T) string {
	if binary := os.Getenv("EVERLOOP_BIN"); binary != "" {
		return binary
	}

	binary := filepath.Join(t.TempDir(), "everloop")

	out, err := exec.Command("go", "build", "-o", binary, "everloop/cmd/everloop").CombinedOutput()
	if err != nil {
		t.Skipf("everloop cannot be built: %v\n%s", err, out)
	}

	return binary
}

// freeAddrs returns n loopback addresses below the ports of outgoing connections.
func freeAddrs(t *testing.T, n int) []string {
	var found []string

	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(8000)))
		if err != nil {
			continue
		}
		defer l.Close() // until all are found, which differ then

		if found = append(found, l.Addr().String()); len(found) == n {
			return found
		}
	}

	t.Fatal("no free ports")

	return nil
}

func (p *program) start() {
	p.t.Helper()
	p.log = &output{}
	p.up = exec.Command(p.binary, "up")
	p.up.Env, p.up.Stdout, p.up.Stderr = p.environ, p.log, p.log
	require.NoError(p.t, p.up.Start())

	done := make(chan struct{})

	p.done = done
	go func() { _ = p.up.Wait(); close(done) }()

	require.Eventually(p.t, func() bool {
		select {
		case <-done:
			return true
		default:
		}

		res, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}

		res.Body.Close()

		return res.StatusCode == http.StatusOK
	}, 5*time.Minute, 100*time.Millisecond, "%s", p.log)

	select {
	case <-done:
		p.t.Fatalf("everloop up ended:\n%s", p.log)
	default:
	}
}

func (p *program) kill() {
	_ = p.up.Process.Kill()
	<-p.done
}

// chat runs the command without a terminal.
func (p *program) chat(args ...string) (code int, out, notes string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.binary, append([]string{"chat"}, args...)...)

	var stdout, stderr bytes.Buffer

	cmd.Env, cmd.Stdout, cmd.Stderr = p.environ, &stdout, &stderr
	_ = cmd.Run() // how it ended is its code

	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestProgram_chatAgainstService(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a whole service")
	}

	addrs := freeAddrs(t, 9)
	agent := addrs[0]
	dir := t.TempDir()
	p := &program{t: t, binary: buildBinary(t), url: "http://" + agent}
	p.environ = append(os.Environ(),
		"DATA_DIR="+dir, "AGENT_ADDR="+agent, "MOCK_ADDR="+addrs[1], "TEMPORAL_ADDR="+addrs[2], "TEMPORAL_UI_ADDR="+addrs[3],
		"GATEWAY_ADDR="+addrs[4], "REGISTRY_ADDR="+addrs[5], "IDENTITY_ADDR="+addrs[6], "DESKTOP_ADDR="+addrs[7], "GIT_ADDR="+addrs[8],
		"EVERLOOP_URL="+p.url, "EVERLOOP_API_KEY=", "BOOTSTRAP_API_KEY="+testKey, "LOG_LEVEL=warn",
		"DATABASE_URL=", "TEMPORAL_ADDRESS=", "NATS_URL=", "S3_ENDPOINT=", "LLM_GATEWAY_URL=")

	code, _, notes := p.chat("--key", testKey, "hello")
	require.Equal(t, 4, code)
	require.Contains(t, notes, "is `make run` running?")
	code, _, notes = p.chat("hello")
	require.Equal(t, 4, code)
	require.Contains(t, notes, "API key is required")

	p.start()
	t.Cleanup(func() { p.kill() })

	code, _, notes = p.chat("--key", "el_wrong", "hello")
	require.Equal(t, 4, code)
	require.Contains(t, notes, "does not accept this API key")

	p.environ = append(p.environ, "EVERLOOP_API_KEY="+testKey)

	t.Run("text, thinking and tools", func(t *testing.T) {
		code, out, notes := p.chat(
			`[[script]]{"steps":[{"thinking":"Hm.","text":"I count.",` +
				`"calls":[{"name":"Bash","arguments":{"command":"echo one; echo two"}}]},{"text":"Counted."}]}`,
		)
		require.Equal(t, 0, code, notes)
		require.Regexp(t, `^thinking: Hm\.\n\nI count\.\n\n`+
			`▸ Bash  echo one; echo two\n  │ one\n  │ two\n  ✓ \d.*\n\nCounted\.\n$`, out)
		require.Contains(t, notes, "everloop chat --session ")
	})
	t.Run("a question, and its answer", func(t *testing.T) {
		code, out, notes := p.chat("ask me a question")
		require.Equal(t, 3, code, notes)
		require.Contains(t, out, "? Colour: Which colour do you like best?\n   1  Blue   Like the sea\n")
		code, out, notes = p.chat("--continue", "--answer", "2", "--answer", "1,3")
		require.Equal(t, 0, code, notes)
		require.Contains(t, out, "You chose: green, shell, browser.")
		require.NotContains(t, out, "Two questions at once", "what was shown before is not shown again")
	})
	t.Run("a headless chat", func(t *testing.T) {
		schema := filepath.Join(dir, "schema.json")
		require.NoError(t, os.WriteFile(schema, []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`), 0o600))
		code, out, notes := p.chat("--output-schema", schema, `[[script]]{"steps":[{"text":"{\"n\": 7}"}]}`)
		require.Equal(t, 0, code, notes)
		require.Empty(t, notes)
		require.Equal(t, "{\n  \"n\": 7\n}\n", out)

		code, _, notes = p.chat("--headless", `[[script]]{"steps":[{"status":400,"error_message":"no"}]}`)
		require.Equal(t, 1, code, notes)
	})
	t.Run("the doctor", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), p.binary, "doctor", "--json")
		cmd.Env = p.environ
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)

		var report struct {
			OK     bool
			Checks []struct{ Name, State, Detail string }
		}
		require.NoError(t, json.Unmarshal(out, &report))
		require.True(t, report.OK, "%s", out)
		require.Contains(t, string(out), "is a running Everloop")
	})
	t.Run("a service that is killed in the middle", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), p.binary, "chat",
			`[[script]]{"loop":{"n":6,"text":"Step {{i}}.","call":{"name":"Bash","arguments":{"command":"sleep 1.5; echo {{i}}"}}},`+
				`"closing":"All is done."}`)
		out, notes := &output{}, &output{}
		cmd.Env, cmd.Stdout, cmd.Stderr = p.environ, out, notes
		require.NoError(t, cmd.Start())

		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()

		require.Eventually(
			t, func() bool { return strings.Contains(out.String(), "Step 2.") }, 5*time.Minute, 10*time.Millisecond, "%s%s", out, notes,
		)
		p.kill()
		p.start()

		select {
		case err := <-ended:
			require.NoError(t, err, "%s%s", out, notes)
		case <-time.After(10 * time.Minute):
			_ = cmd.Process.Kill()

			t.Fatalf("the chat did not end: %s%s", out, notes)
		}

		require.Contains(t, notes.String(), "the connection was lost")
		require.Contains(t, notes.String(), "connected again")
		require.Equal(t, 1, strings.Count(out.String(), "All is done."), out.String())

		for _, step := range []string{"Step 0.", "Step 1.", "Step 5."} {
			require.Equal(t, 1, strings.Count(out.String(), step), "%s of\n%s", step, out)
		}
	})
}
