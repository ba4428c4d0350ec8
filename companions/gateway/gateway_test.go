package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"everloop/companions/credentials"
	"everloop/companions/gateway"
)

const operatorKey = "operator-key-of-the-test"

// server is a gateway with sources of the test.
type server struct {
	*httptest.Server
	t       *testing.T
	service *gateway.Service
	dir     string
}

func start(t *testing.T, settings string, keepAlive time.Duration) *server {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	service, err := gateway.New(gateway.Config{File: file, Key: operatorKey, KeepAlive: keepAlive, Credentials: agentOf(t)})
	require.NoError(t, err)
	s := &server{Server: httptest.NewServer(service.Handler()), t: t, service: service, dir: dir}
	t.Cleanup(s.Close)

	return s
}

// agentOf returns an agent that knows some API keys.
func agentOf(t *testing.T) *credentials.Checker {
	t.Helper()

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer el_administrator":
			fmt.Fprint(w, `{"id":"a","username":"a","administrator":true,"scopes":null}`)
		case "Bearer el_restricted":
			fmt.Fprint(w, `{"id":"a","username":"a","administrator":true,"scopes":["chat"]}`)
		case "Bearer el_user":
			fmt.Fprint(w, `{"id":"b","username":"b","scopes":null}`)
		case "Bearer el_down":
			w.WriteHeader(http.StatusBadGateway)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(agent.Close)

	return credentials.New(agent.URL, "")
}

// upstream returns a source that lists the model m and answers by the handler.
func upstream(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"other"},{"id":"m","context_window":9000,"price":{"input":1}}]}`)
	})
	mux.HandleFunc("/", answer)
	source := httptest.NewServer(mux)
	t.Cleanup(source.Close)

	return source.URL
}

// one is settings with one source.
func one(url, more string) string {
	return "sources:\n  - {name: s, kind: openai, base_url: " + url + ", api_key: secret-of-the-source" + more + "}\n" +
		"aliases: {gpt-x: default_model}\ndefault_model: m\n"
}

func (s *server) do(ctx context.Context, method, path, key, body string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")

	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}

	res, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { res.Body.Close() })

	return res
}

func (s *server) chat(body string) (status int, text string) {
	s.t.Helper()
	res := s.do(s.t.Context(), "POST", "/v1/chat/completions", operatorKey, body)

	return res.StatusCode, read(s.t, res)
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()

	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)

	return string(text)
}

func code(t *testing.T, text string) string {
	t.Helper()

	var e struct {
		Error struct{ Code, Type, Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &e), text)
	require.NotEmpty(t, e.Error.Message)
	require.NotEmpty(t, e.Error.Type)

	return e.Error.Code
}

func TestService_completion_passesUnknownFieldsBothWays(t *testing.T) {
	t.Parallel()

	var (
		got  string
		head http.Header
	)

	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got, head = string(text), r.Header.Clone()

		fmt.Fprint(w, `{"id":"1","model":"m","odd":{"b":1,"a":[2]},"usage":{"prompt_tokens":3,"completion_tokens":4}}`)
	})
	s := start(t, one(url, ""), 0)

	const rest = `"chat_template_kwargs":{"enable_thinking":false},"x_odd":[1, 2.50,"é<"],"messages":[{"role":"user","content":"x"}]}`

	res := s.do(t.Context(), "POST", "/v1/chat/completions", operatorKey, `{"model":"gpt-x",`+rest)
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "m", res.Header.Get("X-Resolved-Model"))
	require.Equal(t, `{"id":"1","model":"gpt-x","odd":{"b":1,"a":[2]},"usage":{"prompt_tokens":3,"completion_tokens":4}}`, read(t, res))
	require.Equal(t, `{"model":"m",`+rest, got)
	require.Equal(t, "Bearer secret-of-the-source", head.Get("Authorization"))

	usage := read(t, s.do(t.Context(), "GET", "/admin/usage", operatorKey, ""))
	require.JSONEq(t, `{"usage":{"operator":{"m":{"requests":1,"estimated_requests":0,"prompt_tokens":3,"completion_tokens":4}}}}`, usage)
}

func TestService_rejects(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"1"}`) })

	s := start(t, one(url, "")+"keys:\n  - {name: small, key: key-for-other-only, models: [other]}\n", 0)
	for name, c := range map[string]struct {
		key, body, code string
		status          int
	}{
		"no key":             {"", `{}`, "invalid_api_key", 401},
		"wrong key":          {"operator-key-of-the-tes", `{}`, "invalid_api_key", 401},
		"not JSON":           {operatorKey, `{`, "invalid_request", 400},
		"nested deeply":      {operatorKey, `{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "invalid_request", 400},
		"no object":          {operatorKey, `[]`, "invalid_request", 400},
		"model twice":        {operatorKey, `{"model":"m","model":"other"}`, "invalid_request", 400},
		"model in capitals":  {operatorKey, `{"model":"m","MODEL":"other"}`, "invalid_request", 400},
		"model a number":     {operatorKey, `{"model":1}`, "invalid_request", 400},
		"nothing":            {operatorKey, ``, "invalid_request", 400},
		"no fields":          {operatorKey, `{}`, "invalid_request", 400},
		"no messages":        {operatorKey, `{"model":"m"}`, "invalid_request", 400},
		"messages null":      {operatorKey, `{"model":"m","messages":null}`, "invalid_request", 400},
		"messages a text":    {operatorKey, `{"model":"m","messages":"x"}`, "invalid_request", 400},
		"messages an object": {operatorKey, `{"model":"m","messages":{"role":"user","content":"x"}}`, "invalid_request", 400},
		"messages empty":     {operatorKey, `{"model":"m","messages":[]}`, "invalid_request", 400},
		"a message a text":   {operatorKey, `{"model":"m","messages":[{"role":"user","content":"x"},"x"]}`, "invalid_request", 400},
		"unknown model":      {operatorKey, `{"model":"no-such"}`, "model_not_found", 404},
		"model of others":    {"key-for-other-only", `{"model":"m"}`, "model_not_found", 404},
	} {
		res := s.do(t.Context(), "POST", "/v1/chat/completions", c.key, c.body)
		require.Equal(t, c.status, res.StatusCode, name)
		require.Equal(t, c.code, code(t, read(t, res)), name)
	}

	require.Equal(
		t,
		200,
		s.do(
			t.Context(),
			"POST",
			"/v1/chat/completions",
			"key-for-other-only",
			`{"model":"other","messages":[{"role":"user","content":"x"}]}`,
		).StatusCode,
	)
	res := s.do(t.Context(), "GET", "/nowhere", operatorKey, "")
	require.Equal(t, "route_not_found", code(t, read(t, res)))

	for path, allow := range map[string]string{
		"/v1/chat/completions": "POST", "/v1/responses": "POST", "/v1/messages": "POST", "/v1/models": "GET, HEAD",
		"/admin/config": "GET, HEAD, PUT", "/health": "GET, HEAD",
	} {
		res := s.do(t.Context(), "DELETE", path, "", "")
		text := read(t, res)
		require.Equal(t, 405, res.StatusCode, path)
		require.Equal(t, allow, res.Header.Get("Allow"), path)
		require.Equal(t, "method_not_allowed", code(t, text), path)
	}

	list := read(t, s.do(t.Context(), "GET", "/v1/models", "key-for-other-only", ""))
	require.JSONEq(t, `{"object":"list","data":[{"id":"other","object":"model","created":1767225600,"owned_by":"s"}]}`, list)
}

func TestService_models_defaultFirstWithAliases(t *testing.T) {
	t.Parallel()
	s := start(t, one(upstream(t, http.NotFound), ""), 0)
	list := read(t, s.do(t.Context(), "GET", "/v1/models", operatorKey, ""))
	require.JSONEq(t, `{"object":"list","data":[
		{"id":"m","object":"model","created":1767225600,"owned_by":"s","context_window":9000,"price":{"input":1},"aliases":["gpt-x"]},
		{"id":"other","object":"model","created":1767225600,"owned_by":"s"}]}`, list)
	require.Contains(t, read(t, s.do(t.Context(), "GET", "/v1/models/gpt-x", operatorKey, "")), `"id":"m"`)
	health := read(t, s.do(t.Context(), "GET", "/health", "", ""))
	require.JSONEq(t, `{"ok":true,"sources":[
		{"name":"s","kind":"openai","healthy":true,"in_flight":0,"queued":0,"latency_ms_p50":0}]}`, health)
}

// A client of Anthropic's interface gets the fields that it knows besides.
func TestService_models_ofAnthropic(t *testing.T) {
	t.Parallel()
	s := start(t, one(upstream(t, http.NotFound), ""), 0)
	get := func(path string) string {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("X-Api-Key", operatorKey)
		r.Header.Set("Anthropic-Version", "2023-06-01")
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)

		defer res.Body.Close()

		return read(t, res)
	}

	list := get("/v1/models")
	require.Equal(t, `[false,"m","other"]`, gjson.Get(list, "[has_more,first_id,last_id]").Raw)
	require.JSONEq(t, `{"type":"model","display_name":"other","created_at":"2026-01-01T00:00:00Z",
		"id":"other","object":"model","created":1767225600,"owned_by":"s"}`, gjson.Get(list, "data.1").Raw)
	require.Equal(t, "m", gjson.Get(get("/v1/models/gpt-x"), "display_name").String())
}

func TestService_models_loadedWindow(t *testing.T) {
	t.Parallel()

	for _, named := range []string{
		`"max_model_len":4096`, `"meta":{"n_ctx":4096,"n_ctx_train":131072}`, `"max_context_length":131072,"loaded_context_length":4096`,
	} {
		source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"data":[{"id":"m",%s}]}`, named)
		}))
		t.Cleanup(source.Close)

		s := start(t, one(source.URL, ""), 0)
		models := read(t, s.do(t.Context(), "GET", "/v1/models", operatorKey, ""))
		require.Equal(t, int64(4096), gjson.Get(models, "data.0.context_window").Int(), named)
	}
}

// What no client can read is the source's fault, streamed or not.
func TestService_anAnswerThatIsNoObject(t *testing.T) {
	t.Parallel()

	for _, answer := range []string{"{not json", "<html>login</html>", "[]", ""} {
		s := start(t, one(upstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }), ""), 0)
		for _, body := range []string{`{"model":"m","messages":[{"role":"user","content":"x"}]}`, `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`} {
			status, text := s.chat(body)
			require.Equal(t, 502, status, answer)
			require.Equal(t, "source_error", code(t, text), answer)
		}
	}
}

// The usage of a key that was not used is empty.
func TestService_usage_none(t *testing.T) {
	t.Parallel()
	s := start(t, one(upstream(t, http.NotFound), "")+"keys: [{name: free, key: key-that-is-not-used}]\n", 0)
	require.JSONEq(t, `{"usage":{}}`, read(t, s.do(t.Context(), "GET", "/admin/usage", "key-that-is-not-used", "")))
}

func TestService_stream(t *testing.T) {
	t.Parallel()

	const usage = `data: {"model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}}`

	var asked bool

	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked = bytes.Contains(text, []byte(`"include_usage":true`))

		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a\",\"x\":1}}]}\n\n"+
			"data: {\"model\":\"m\",\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n"+usage+"\n\ndata: [DONE]\n\n")
	})
	s := start(t, one(url, ""), 0)
	_, text := s.chat(`{"model":"gpt-x","stream":true,"messages":[{"role":"user","content":"x"}]}`)

	require.True(t, asked)
	require.Equal(t, "data: {\"model\":\"gpt-x\",\"choices\":[{\"delta\":{\"content\":\"a\",\"x\":1}}]}\n\n"+
		"data: {\"model\":\"gpt-x\",\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", text)

	_, text = s.chat(`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`)
	require.Contains(t, text, usage)
	require.Contains(t, read(t, s.do(t.Context(), "GET", "/admin/usage", operatorKey, "")), `"completion_tokens":12`)
}

func TestService_stream_brokenEndsWithAnError(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ sent, code string }{
		"cut":          {"data: {\"choices\":[{\"delta\":{}}]}\n\ndata: {\"ch", "source_cut"},
		"clean end":    {"data: {\"choices\":[{\"delta\":{}}]}\n\n", "source_cut"},
		"own error":    {"data: {\"error\":{\"message\":\"no\",\"code\":\"own\",\"type\":\"t\"}}\n\n", "own"},
		"without DONE": {"data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, c.sent)

				if name == "cut" {
					require.NoError(t, http.NewResponseController(w).Flush())
					panic(http.ErrAbortHandler)
				}
			})
			_, text := start(t, one(url, ""), 0).chat(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
			require.Equal(t, strings.Count(text, `"error"`), min(len(c.code), 1), text)

			if c.code != "" {
				last := strings.TrimSpace(text[strings.LastIndex(text, "data: ")+6:])
				require.Equal(t, c.code, code(t, last))
			}
		})
	}
}

func TestService_stream_silence(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{}}]}\n\n")
		_ = http.NewResponseController(w).Flush()

		<-r.Context().Done()
	})
	text := silence(t, ": keep-alive\n\n", func(idle string) string {
		_, text := start(
			t,
			one(url, idle),
			20*time.Millisecond,
		).chat(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)

		return text
	})
	require.Contains(t, text, ": keep-alive\n\n")
	require.Contains(t, text, `"code":"source_timeout"`)
}

// silence asks a source that falls silent, and gives the answer. On a busy machine, the
// limit of silence may be over before what keeps the connection alive is due: then the
// source is asked again, with a longer limit.
func silence(t *testing.T, alive string, ask func(settings string) string) (text string) {
	t.Helper()

	for idle := 0.5; idle < 100 && !strings.Contains(text, alive); idle *= 4 {
		text = ask(fmt.Sprintf(", idle_timeout_s: %g", idle))
	}

	return text
}

func TestService_clientLeaves_cancelsAndCounts(t *testing.T) {
	t.Parallel()

	gone := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()

		<-r.Context().Done()
		close(gone)
	})
	s := start(t, one(url, ""), 0)
	ctx, leave := context.WithCancel(t.Context())
	res := s.do(ctx, "POST", "/v1/chat/completions", operatorKey, `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	_, err := bufio.NewReader(res.Body).ReadString('\n')
	require.NoError(t, err)
	leave()
	<-gone
	require.Eventually(t, func() bool {
		return strings.Contains(read(t, s.do(t.Context(), "GET", "/admin/usage", operatorKey, "")),
			`"requests":1,"estimated_requests":1,"prompt_tokens":17,"completion_tokens":1`)
	}, time.Minute, time.Millisecond)
}

func TestService_statusesOfTheSourcePassWithTheirWords(t *testing.T) {
	t.Parallel()

	for _, status := range []int{400, 401, 429, 500, 503} {
		url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":{"message":"key secret-of-the-source","odd":1}}`)
		})
		res := start(
			t,
			one(url, ""),
			0,
		).do(t.Context(), "POST", "/v1/chat/completions", operatorKey, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
		require.Equal(t, status, res.StatusCode)
		require.Equal(t, "7", res.Header.Get("Retry-After"))
		require.Equal(t, `{"error":{"message":"key ***","odd":1}}`, read(t, res))
	}
}

func TestService_unreachable(t *testing.T) {
	t.Parallel()

	dead := httptest.NewServer(nil)
	dead.Close()

	s := start(t, one(dead.URL, ", models: [{id: m}]"), 0)
	for range 3 { // past the breaker's limit
		status, text := s.chat(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
		require.Equal(t, 502, status)
		require.Equal(t, "source_unavailable", code(t, text))
		require.NotContains(t, text, dead.Listener.Addr().String())
	}

	require.Contains(t, read(t, s.do(t.Context(), "GET", "/health", "", "")), `"healthy":false`)
	slow := start(t, one(upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}), ", timeout_s: 0.05"), 0)
	status, text := slow.chat(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 504, status)
	require.Equal(t, "source_timeout", code(t, text))
}

// The client retries: a request goes to each source of its model once.
func TestService_asksSourceOnce(t *testing.T) {
	t.Parallel()

	var asked atomic.Int32

	closing := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked.Add(1)
		}

		panic(http.ErrAbortHandler) // closes the connection without an answer
	})
	s := start(t, one(closing, ", models: [{id: m}]"), 0)
	status, text := s.chat(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 502, status)
	require.Equal(t, "source_unavailable", code(t, text))
	require.EqualValues(t, 1, asked.Load())
}

func TestService_secondSourceTakesOver(t *testing.T) {
	t.Parallel()
	busy := upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	well := upstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"well"}`) })
	dead := httptest.NewServer(nil)
	dead.Close()

	s := start(t, fmt.Sprintf(`sources:
  - {name: a, kind: openai, base_url: %s}
  - {name: b, kind: openai, base_url: %s}
  - {name: c, kind: openai, base_url: %s, models: [{id: m}]}
`, busy, well, dead.URL), 0)
	for i := range 5 {
		status, text := s.chat(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, i))
		require.Equal(t, 200, status, text)
	}
}

// The answer of a source that is busy is passed on when the others cannot be asked.
func TestService_busySourceAndNoOther(t *testing.T) {
	t.Parallel()

	dead := httptest.NewServer(nil)
	dead.Close()

	for _, status := range []int{429, 503} {
		busy := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":{"message":"busy"}}`)
		})
		s := start(t, fmt.Sprintf(`sources:
  - {name: a, kind: openai, base_url: %s, models: [{id: m}]}
  - {name: b, kind: openai, base_url: %s, models: [{id: m}]}
`, busy, dead.URL), 0)

		for range 8 { // until the breaker of b is open
			res := s.do(
				t.Context(),
				"POST",
				"/v1/chat/completions",
				operatorKey,
				`{"model":"m","messages":[{"role":"user","content":"x"}]}`,
			)
			text := read(t, res)
			require.Equal(t, status, res.StatusCode, text)
			require.Equal(t, "7", res.Header.Get("Retry-After"))
			require.Equal(t, `{"error":{"message":"busy"}}`, text)
		}

		usage := read(t, s.do(t.Context(), "GET", "/admin/usage", operatorKey, ""))
		require.Equal(t, int64(8), gjson.Get(usage, "usage.operator.m.requests").Int())
		require.Contains(t, read(t, s.do(t.Context(), "GET", "/health", "", "")), `"healthy":false`)
	}
}

func TestService_queueFull(t *testing.T) {
	t.Parallel()

	started, end := make(chan struct{}), make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		started <- struct{}{}

		<-end
		fmt.Fprint(w, `{"id":"1"}`)
	})
	s := start(t, one(url, ", max_concurrency: 1, max_queue: 1"), 0)
	done := make(chan int, 2)

	send := func() {
		res := s.do(t.Context(), "POST", "/v1/chat/completions", operatorKey, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
		done <- res.StatusCode
	}
	go send()

	<-started

	go send()

	require.Eventually(t, func() bool {
		return strings.Contains(read(t, s.do(t.Context(), "GET", "/health", "", "")), `"in_flight":1,"queued":1`)
	}, time.Minute, time.Millisecond)
	res := s.do(t.Context(), "POST", "/v1/chat/completions", operatorKey, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 429, res.StatusCode)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Equal(t, "queue_full", code(t, read(t, res)))

	end <- struct{}{}

	<-started

	end <- struct{}{}

	require.Equal(t, []int{200, 200}, []int{<-done, <-done})
}

func TestService_keyRemovedWhileItsRequestWaits(t *testing.T) {
	t.Parallel()

	started, end := make(chan struct{}), make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		started <- struct{}{}

		<-end
		fmt.Fprint(w, `{"id":"1"}`)
	})
	settings := one(url, ", max_concurrency: 1")
	s := start(t, settings+"keys: [{name: guest, key: a-key-of-sixteen-characters}]\n", 0)
	first, waits := make(chan int, 1), make(chan *http.Response, 1)

	go func() {
		res := s.do(t.Context(), "POST", "/v1/chat/completions", operatorKey, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
		first <- res.StatusCode
	}()

	<-started

	go func() {
		waits <- s.do(t.Context(), "POST", "/v1/chat/completions", "a-key-of-sixteen-characters", `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	}()

	require.Eventually(t, func() bool {
		return strings.Contains(read(t, s.do(t.Context(), "GET", "/health", "", "")), `"in_flight":1,"queued":1`)
	}, time.Minute, time.Millisecond)

	set := read(t, s.do(t.Context(), "GET", "/admin/config", operatorKey, ""))
	changed, err := sjson.Delete(set, "keys")
	require.NoError(t, err)

	put := s.do(t.Context(), "PUT", "/admin/config", operatorKey, changed)
	require.Equal(t, 200, put.StatusCode, read(t, put))

	end <- struct{}{}

	require.Equal(t, 200, <-first)

	res := <-waits
	require.Equal(t, 401, res.StatusCode)
	require.Equal(t, "invalid_api_key", code(t, read(t, res)))
}

// A body without a model goes to the default model. Without one it is refused, and no source
// gets it.
func TestService_rejects_bodiesThatNoSourceCanAnswer(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64

	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"id":"1"}`)
	})
	noDefault := start(t, "sources:\n  - {name: s, kind: openai, base_url: "+url+"}\n", 0)

	status, text := noDefault.chat(`{"messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 400, status, text)
	require.Equal(t, "invalid_request", code(t, text))

	s := start(t, one(url, ""), 0)
	status, text = s.chat(`{"messages":"x"}`)
	require.Equal(t, 400, status, text)

	res := s.do(t.Context(), "POST", "/v1/embeddings", operatorKey, `{"model":"m"}`)
	require.Equal(t, 400, res.StatusCode)
	require.Zero(t, asked.Load())

	status, text = s.chat(`{"messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 200, status, text)

	res = s.do(t.Context(), "POST", "/v1/embeddings", operatorKey, `{"model":"m","input":"x"}`)
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, int64(2), asked.Load())
}
