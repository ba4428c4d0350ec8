package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"everloop/companions/gateway"
	"everloop/companions/gateway/localserver/localservertest"
)

func TestMain(m *testing.M) {
	localservertest.Main()
	os.Exit(m.Run())
}

const longest = 2 * time.Minute

// local returns a source whose server the gateway runs.
func local(t *testing.T, model, more string) string {
	t.Helper()

	return fmt.Sprintf("  - {name: local, kind: llama_server, model_file: %s, program: %s%s}\n", model, localservertest.Program(t), more)
}

// serve returns a gateway that serves, and so runs the servers of its sources, until end.
func serve(t *testing.T, settings string) (s *server, end func()) {
	t.Helper()

	s = start(t, settings, 0)
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	ended := make(chan error, 1)
	go func() { ended <- s.service.Serve(ctx, listener) }()

	end = func() {
		cancel()

		if err, open := <-ended; open {
			require.NoError(t, err)
			close(ended)
		}
	}
	t.Cleanup(end)

	return s, end
}

func (s *server) write(settings string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "config.yaml"), []byte(settings), 0o600))
}

// sourceOf returns what /health says of the first source.
func (s *server) sourceOf(key string) gjson.Result {
	s.t.Helper()

	return gjson.Get(read(s.t, s.do(s.t.Context(), "GET", "/health", key, "")), "sources.0")
}

// until returns the answer of the server once it gives one that fits.
func (s *server) until(fits func(localservertest.Given) bool) (g localservertest.Given) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		status, text := s.chat(`{"messages":[{"role":"user","content":"x"}]}`)
		if status != 200 {
			return false
		}

		g = localservertest.Given{}
		require.NoError(s.t, json.Unmarshal([]byte(gjson.Get(text, "choices.0.message.content").String()), &g))

		return fits(g)
	}, longest, 10*time.Millisecond)

	return g
}

func anyAnswer(localservertest.Given) bool { return true }

func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

func TestLocal_isASourceLikeOthers(t *testing.T) {
	t.Parallel()

	model := localservertest.Model(t)
	s, end := serve(t, "sources:\n"+local(t, model, ", context: 4096, slots: 2, args: [--loading, '2']")+"default_model: tiny\n")
	g := s.until(anyAnswer)
	require.Contains(t, strings.Join(g.Args, " "), "--parallel 2 --ctx-size 8192")

	health := s.sourceOf("")
	require.Equal(t, "ready", health.Get("server.state").String())
	require.True(t, health.Get("healthy").Bool(), health.Raw)
	require.False(t, health.Get("server.output").Exists(), "without a key")
	require.Equal(t, "key ***", s.sourceOf(operatorKey).Get("server.output.0").String())
	require.Equal(t, "key ***", s.sourceOf("el_administrator").Get("server.output.0").String())
	require.False(t, s.sourceOf("el_user").Get("server.output").Exists())

	models := read(t, s.do(t.Context(), "GET", "/v1/models", operatorKey, ""))
	require.Equal(t, `["tiny"]`, gjson.Get(models, "data.#.id").Raw)
	require.Equal(t, int64(4096), gjson.Get(models, "data.0.context_window").Int())
	require.Equal(t, int64(4096), gjson.Get(models, "data.0.meta.n_ctx_train").Int(), "what the server says of it")

	end()
	require.True(t, gone(g.PID))
}

func TestLocal_whileItLoads(t *testing.T) {
	t.Parallel()

	s, _ := serve(t, "sources:\n"+local(t, localservertest.Model(t), ", args: [--loading, '-1']")+"default_model: tiny\n")
	require.Eventually(t, func() bool {
		return s.sourceOf("").Get("server.state").String() == "loading"
	}, longest, 10*time.Millisecond)
	require.False(t, s.sourceOf("").Get("healthy").Bool())

	res := s.do(t.Context(), "POST", "/v1/chat/completions", operatorKey, `{"messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 503, res.StatusCode)
	require.Equal(t, "5", res.Header.Get("Retry-After"))
	require.Equal(t, "source_starting", code(t, read(t, res)))
}

func TestLocal_crash(t *testing.T) {
	t.Parallel()

	s, _ := serve(t, "sources:\n"+local(t, localservertest.Model(t), "")+"default_model: tiny\n")
	first := s.until(anyAnswer)

	status, text := s.chat(`{"messages":[{"role":"user","content":"please crash"}]}`)
	require.Equal(t, 502, status, text)
	require.Equal(t, "source_unavailable", code(t, text))
	require.NotContains(t, text, "/")

	s.until(func(g localservertest.Given) bool { return g.PID != first.PID })
	require.Equal(t, int64(1), s.sourceOf("").Get("server.restarts").Int())
	require.True(t, s.sourceOf("").Get("healthy").Bool())
}

func TestLocal_failed(t *testing.T) {
	t.Parallel()

	s, _ := serve(t, "sources:\n"+local(t, localservertest.Model(t), ", args: [--crash]")+"default_model: tiny\n")
	require.Eventually(t, func() bool {
		one := s.sourceOf(operatorKey)
		lines := one.Get("server.output").Array()

		return one.Get("server.state").String() == "failed" && len(lines) == 2 && lines[1].String() == "error: out of memory" &&
			strings.Contains(one.Get("last_error").String(), "exit status 3") && one.Get("server.next_start_at").Exists()
	}, longest, 10*time.Millisecond)
}

// Another queue needs no other process; other arguments do, and without a source it ends.
func TestLocal_reload(t *testing.T) {
	t.Parallel()

	model := localservertest.Model(t)
	settings := func(more string) string { return "sources:\n" + local(t, model, more) + "default_model: tiny\n" }
	s, _ := serve(t, settings(""))
	first := s.until(anyAnswer)

	s.write(settings(", max_queue: 3, models: [{id: other}]") + "aliases: {tiny: other}\n")
	require.Eventually(t, func() bool {
		return strings.Contains(read(t, s.do(t.Context(), "GET", "/v1/models", operatorKey, "")), `"other"`)
	}, longest, 10*time.Millisecond)
	require.Equal(t, first.PID, s.until(anyAnswer).PID)

	s.write(settings(", args: [--loading, '1']"))

	second := s.until(func(g localservertest.Given) bool { return g.PID != first.PID })

	require.True(t, gone(first.PID), "both may not fit into the memory")
	require.Contains(t, second.Args, "--loading")

	s.write("sources: [{name: demo, kind: demo}]\n")
	require.Eventually(t, func() bool { return gone(second.PID) }, longest, 10*time.Millisecond)
}

func TestLocal_settings(t *testing.T) {
	t.Parallel()

	model, program := localservertest.Model(t), localservertest.Program(t)

	for name, c := range map[string]struct{ source, text string }{
		"no model":       {"kind: llama_server, model_file: /no/such.gguf, program: " + program, "/no/such.gguf does not exist"},
		"no program":     {"kind: llama_server, program: /no/such, model_file: " + model, "program /no/such does not exist"},
		"not executable": {"kind: llama_server, program: " + model + ", model_file: " + model, "is not executable"},
		"with address":   {"kind: llama_server, base_url: 'http://127.0.0.1:1', model_file: " + model, "exclude each other"},
		"with key":       {"kind: llama_server, api_key: x, model_file: " + model, "api_key"},
		"other kind":     {"kind: openai, model_file: " + model, "llama_server"},
		"no model file":  {"kind: llama_server, base_url: 'http://127.0.0.1:1', program: x", "need model_file"},
		"port":           {"kind: llama_server, args: [--port, '1'], model_file: " + model, "--port"},
		"slots":          {"kind: llama_server, slots: -1, model_file: " + model, "slots"},
		"start timeout":  {"kind: llama_server, start_timeout_s: -1, model_file: " + model, "start_timeout_s"},
		"neither":        {"kind: llama_server", "base_url"},
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(file, []byte("sources: [{name: local, "+c.source+"}]\n"), 0o600))
		_, err := gateway.New(gateway.Config{File: file, Key: operatorKey})
		require.ErrorContains(t, err, c.text, name)
	}
}

// A key of the management is not a way to run programs.
func TestAdmin_config_startsNoProgram(t *testing.T) {
	t.Parallel()

	model := localservertest.Model(t)
	s := start(t, "sources:\n"+local(t, model, "")+"  - {name: s, kind: openai, base_url: 'http://127.0.0.1:1'}\n", 0)
	put := func(sources string) (int, string) {
		res := s.do(t.Context(), "PUT", "/admin/config", operatorKey, `{"sources":[`+sources+`]}`)
		return res.StatusCode, read(t, res)
	}
	source := func(name, model, program, more string) string {
		return fmt.Sprintf(`{"name":%q,"kind":"llama_server","model_file":%q,"program":%q%s}`, name, model, program, more)
	}
	program := localservertest.Program(t)

	before, err := os.ReadFile(filepath.Join(s.dir, "config.yaml"))
	require.NoError(t, err)

	for name, sources := range map[string]string{
		"program":    source("local", model, "/bin/sh", ""),
		"no program": source("local", model, "", ""),
		"arguments":  source("local", model, program, `,"args":["--verbose"]`),
		"model file": source("local", "/etc/passwd", program, ""),
		"new source": source("other", model, program, ""),
		"of another": `{"name":"s","kind":"llama_server","model_file":"` + model + `"}`,
		"args alone": `{"name":"s","kind":"openai","base_url":"http://127.0.0.1:1","args":["x"]}`,
	} {
		status, text := put(sources)
		require.Equal(t, 403, status, name)
		require.Equal(t, "only_in_file", code(t, text), name)
	}

	kept, err := os.ReadFile(filepath.Join(s.dir, "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, string(before), string(kept))

	status, text := put(source("local", model, program, `,"slots":3,"context":100`))
	require.Equal(t, 200, status, text)
	require.Equal(t, int64(3), gjson.Get(text, "sources.0.slots").Int())

	status, text = put(`{"name":"s","kind":"openai","base_url":"http://127.0.0.1:1"}`)
	require.Equal(t, 200, status, "it may be taken out: "+text)

	status, text = put(source("local", model, program, ""))
	require.Equal(t, 403, status, text)
}
