package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// everything returns a server with a tool of each kind.
func everything() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ServerOptions{PageSize: 2})

	type words struct {
		Text string `json:"text"`
	}

	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}

	sdk.AddTool(
		server,
		&sdk.Tool{Name: "echo", Title: "Echo it", Description: "Says it again", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
			return text("You said " + in.Text), nil, nil
		},
	)
	sdk.AddTool(server, &sdk.Tool{Name: "put", Annotations: &sdk.ToolAnnotations{IdempotentHint: true}},
		func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error) {
			return text("put"), nil, nil
		})
	sdk.AddTool(server, &sdk.Tool{Name: "act"},
		func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error) {
			return nil, nil, fmt.Errorf("cannot act")
		})
	server.AddTool(&sdk.Tool{Name: "mixed.content", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{
				&sdk.TextContent{Text: "see"},
				&sdk.ImageContent{MIMEType: "image/png", Data: []byte("12345")},
				&sdk.ResourceLink{URI: "file:///x", Name: "x"},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///y", Text: "inside y"}},
			}}, nil
		})
	server.AddTool(&sdk.Tool{Name: "structured", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{StructuredContent: map[string]any{"answer": 42}}, nil
		})
	server.AddTool(&sdk.Tool{Name: "slow", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for i := range 3 {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
					ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: "working",
				})
				select {
				case <-time.After(2 * progressEvery):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}

			return text("slow"), nil
		})

	return server
}

// both runs a test over both transports.
func both(t *testing.T, test func(t *testing.T, w *env)) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		w.stdio("every", serving(everything()))
		test(t, w)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return everything() }, nil)
		front := httptest.NewServer(handler)
		t.Cleanup(front.Close)
		w.add(
			domain.MCPServer{Name: "every", Transport: toolserver.HTTP, URL: front.URL},
			func(s *toolserver.Record) { s.Trusted = true },
		)
		t.Cleanup(w.manager.Close) // before the front, which waits for its clients
		test(t, w)
	})
}

func TestToolsOfAServer(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, w *env) {
		offered := w.atFirst(6) // all pages
		echo := offered["mcp__every__echo"]
		require.Equal(t, "every: Echo it", echo.DisplayName)
		require.Equal(t, "Says it again", echo.Spec.Description)
		require.Contains(t, string(echo.Spec.Parameters), `"text"`)
		require.False(t, echo.Acts)
		require.True(t, offered["mcp__every__act"].Acts)
		require.False(t, offered["mcp__every__put"].Acts)

		for name, tool := range offered {
			require.False(t, tool.Planning, "%s is offered while a plan is made", name)
			require.Equal(t, 65*time.Second, tool.TimeLimit)
		}

		state := w.store.state("every")
		require.Equal(t, toolserver.Connected, state.Status)
		require.Len(t, state.Tools, 6)

		for name, want := range map[string]tools.Result{
			"mcp__every__echo":       {Output: "You said hi"},
			"mcp__every__act":        {Output: "cannot act", IsError: true},
			"mcp__every__structured": {Output: `{"answer":42}`},
			toolName("every", "mixed.content"): {
				Output: "see\n[image, image/png, 5 bytes, not shown: its content is neither PNG nor JPEG, GIF or WebP]\n" +
					"[resource file:///x, x]\n[resource file:///y]\ninside y",
			},
		} {
			got, err := w.call(t.Context(), name, `{"text":"hi"}`)
			require.NoError(t, err, name)
			require.Equal(t, want, got, name)
		}
		// The schema is enforced before the server is asked, by the registry; a
		// server that refuses all the same is quoted.
		refused, err := w.call(t.Context(), "mcp__every__echo", `{"text":5}`)
		require.NoError(t, err)
		require.True(t, refused.IsError)
	})
}

func TestProgressIsShown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, w *env) {
		call := newCall(`{}`)

		var (
			mu    sync.Mutex
			shown strings.Builder
		)

		call.Progress = func(stream, text string) {
			mu.Lock()
			defer mu.Unlock()

			require.Equal(t, "progress", stream)
			shown.WriteString(text)
		}
		// What is handled behind the result, as on a busy machine, is not shown: then it is tried again.
		whole := func() bool {
			mu.Lock()
			defer mu.Unlock()

			defer shown.Reset()

			return strings.Contains(shown.String(), "1/3 working\n") && strings.Contains(shown.String(), "3/3 working\n")
		}
		shows := func() bool {
			result, err := w.tool("mcp__every__slow").Run(t.Context(), call)
			require.NoError(t, err)
			require.Equal(t, "slow", result.Output)

			return whole()
		}

		tries := 1
		for !shows() {
			require.Less(t, tries, 20, "progress is not shown")

			tries++
		}
	})
}

func TestAStopReachesTheServer(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, w *env, entered, left chan struct{}) {
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)

		tool := w.tool("mcp__h__hang")
		go func() {
			_, err := tool.Run(ctx, newCall(`{}`))
			over <- err
		}()

		<-entered
		stop()

		select {
		case err := <-over:
			require.ErrorIs(t, err, context.Canceled)
		case <-time.After(soon):
			t.Fatal("the stop is not heard")
		}

		select {
		case <-left:
		case <-time.After(soon):
			t.Fatal("the server did not hear of it")
		}

		result, err := w.call(t.Context(), "mcp__h__fine", `{}`)
		require.NoError(t, err)
		require.Equal(t, "fine", result.Output, "the connection goes on")
	}
	hanging := func() (*sdk.Server, chan struct{}, chan struct{}) {
		entered, left := make(chan struct{}), make(chan struct{})
		server := sdk.NewServer(&sdk.Implementation{Name: "h", Version: "1"}, nil)
		server.AddTool(
			&sdk.Tool{Name: "hang", InputSchema: map[string]any{"type": "object"}},
			func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				close(entered)
				<-ctx.Done()
				close(left)

				return nil, ctx.Err()
			},
		)
		server.AddTool(
			&sdk.Tool{Name: "fine", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "fine"}}}, nil
			},
		)

		return server, entered, left
	}

	t.Run("stdio", func(t *testing.T) {
		w := newEnv(t)
		server, entered, left := hanging()
		w.stdio("h", serving(server))
		run(t, w, entered, left)
	})
	t.Run("http", func(t *testing.T) {
		w := newEnv(t)
		server, entered, left := hanging()
		front := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
		t.Cleanup(front.Close)
		t.Cleanup(w.manager.Close)
		w.add(domain.MCPServer{Name: "h", Transport: toolserver.HTTP, URL: front.URL}, func(s *toolserver.Record) { s.Trusted = true })
		run(t, w, entered, left)
	})
}

func TestAChangedListIsNoticed(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	server := everything()
	w.stdio("every", serving(server))
	w.tool("mcp__every__echo")
	server.AddTool(&sdk.Tool{Name: "new", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})

	result, err := w.call(t.Context(), "mcp__every__new", `{}`)
	require.NoError(t, err)
	require.Equal(t, "(The tool gave no content.)", result.Output)
	server.RemoveTools("echo")
	require.Eventually(t, func() bool { _, there := w.offered()["mcp__every__echo"]; return !there }, soon, tick)
}

func TestAServerThatComesBack(t *testing.T) {
	t.Parallel()
	w := newEnv(t)

	var (
		lives   atomic.Int32
		handler atomic.Pointer[sdk.StreamableHTTPHandler]
	)

	restart := func() {
		lives.Add(1)
		handler.Store(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return everything() }, nil))
	}
	restart()

	var secret atomic.Value

	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		secret.Store(r.Header.Get("X-Api-Key"))

		if r.Method == http.MethodGet { // no notices: the client finds out by a call
			rw.WriteHeader(http.StatusMethodNotAllowed)
			return
		}

		handler.Load().ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	t.Cleanup(w.manager.Close)
	w.add(domain.MCPServer{Name: "web", Transport: toolserver.HTTP, URL: front.URL, Headers: map[string]string{"X-Api-Key": "s3cret-key"}},
		func(s *toolserver.Record) { s.Trusted = true })

	for range 3 {
		result, err := w.call(t.Context(), "mcp__web__act", `{"text":"x"}`)
		require.NoError(t, err)
		require.Equal(t, "cannot act", result.Output, "the new process does not know the old session; the call is sent again")
		restart()
	}

	require.Equal(t, "s3cret-key", secret.Load())
	require.NotContains(t, w.log.String(), "s3cret-key")
}

// Many servers report an unknown session in an error for the request, instead of the bare
// 404 of the protocol. The call reaches the new session once.
func TestCall_sessionForgotten(t *testing.T) {
	t.Parallel()

	for name, refusal := range map[string]struct {
		status int
		body   string
	}{
		"404 with any error":       {404, `{"code":-32001,"message":"gone"}`},
		"400 of the SDK's example": {400, `{"code":-32000,"message":"Bad Request: No valid session ID provided"}`},
		"400 with expired session": {400, `{"code":-32600,"message":"Session expired"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)

			var (
				mu       sync.Mutex
				sessions = map[string]bool{}
				deleted  []string
				effects  int
			)

			front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()

				session := r.Header.Get("Mcp-Session-Id")
				if r.Method == http.MethodDelete {
					deleted = append(deleted, session)
					return
				}

				var request struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
				}
				if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
					rw.WriteHeader(http.StatusMethodNotAllowed)
					return
				}

				rw.Header().Set("Content-Type", "application/json")

				switch {
				case request.Method == "initialize":
					session = fmt.Sprint("s", len(sessions)+len(deleted)+1)
					sessions[session] = true
					rw.Header().Set("Mcp-Session-Id", session)
					_, _ = rw.Write(reply(request.ID, hello))
				case !sessions[session]:
					rw.WriteHeader(refusal.status)
					fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"error":%s}`, cmp.Or(string(request.ID), "null"), refusal.body)
				case request.ID == nil:
					rw.WriteHeader(http.StatusAccepted)
				case request.Method == "tools/list":
					_, _ = rw.Write(reply(request.ID, oneTool))
				default:
					effects++
					_, _ = rw.Write(reply(request.ID, `{"content":[{"type":"text","text":"done"}]}`))
				}
			}))
			t.Cleanup(front.Close)
			t.Cleanup(w.manager.Close)
			w.add(
				domain.MCPServer{Name: "web", Transport: toolserver.HTTP, URL: front.URL},
				func(s *toolserver.Record) { s.Trusted = true },
			)

			for n := 1; n <= 2; n++ {
				result, err := w.call(t.Context(), "mcp__web__act", `{}`)
				require.NoError(t, err)
				require.Equal(t, "done", result.Output)

				mu.Lock()
				require.Equal(t, n, effects)
				clear(sessions)
				mu.Unlock()
			}

			w.manager.Close()
			mu.Lock()
			defer mu.Unlock()

			require.Contains(t, deleted, "s1", "the old session is ended")
		})
	}
}

func TestTools_beforeTheServerResponds(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	release := make(chan struct{})
	serve := serving(everything())
	w.stdio("every", serve)
	w.tool("mcp__every__echo")
	w.manager.Close()

	// Another worker, to which the server is slow to come.
	w2 := newEnv(t)
	w2.store.states = w.store.states
	w2.stdio("every", func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
		<-release
		return serve(ctx, in, out, errs)
	})
	tool, there := w2.offered()["mcp__every__echo"]
	require.True(t, there)
	time.AfterFunc(50*time.Millisecond, func() { close(release) })

	result, err := tool.Run(t.Context(), newCall(`{"text":"late"}`))
	require.NoError(t, err)
	require.Equal(t, "You said late", result.Output)
}

func TestManager_oneProcessPerSessionAndServer(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("every", serving(everything()), func(s *toolserver.Record) {
		s.Env, s.Args = map[string]string{"TOKEN": "t"}, []string{"--x"}
	})

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { w.offered() })
	}

	all.Wait()

	_, err := w.call(t.Context(), "mcp__every__echo", `{"text":"a"}`)
	require.NoError(t, err)

	started, alive := w.launcher.running()
	require.Equal(t, [2]int{1, 1}, [2]int{started, alive})
	require.Equal(t, []string{"every", "--x"}, w.launcher.last.Argv)
	require.Equal(t, map[string]string{"TOKEN": "t"}, w.launcher.last.Env)
	require.Equal(t, 100001, w.launcher.last.Session.SandboxUID)

	for _, forget := range []func(){
		func() { w.manager.ForgetSession(session.ID) },
		func() { w.manager.ForgetServer("id-every") },
		func() { w.manager.ForgetUser("ann") },
	} {
		w.tool("mcp__every__echo")
		forget()
		require.Eventually(t, func() bool { _, alive := w.launcher.running(); return alive == 0 }, soon, tick)
	}
}

// Unused, it ends; used again, it is started again.
func TestAnUnusedProcessEnds(t *testing.T) {
	t.Parallel()
	w := newEnv(t, func(c *Config) { c.Idle = 200 * time.Millisecond })
	w.stdio("every", serving(everything()))

	for _, text := range []string{"a", "b"} {
		result, err := w.call(t.Context(), "mcp__every__echo", `{"text":"`+text+`"}`)
		require.NoError(t, err)
		require.Equal(t, "You said "+text, result.Output)
		require.Eventually(t, func() bool { _, alive := w.launcher.running(); return alive == 0 }, soon, tick)
	}
}

func TestManager_changedSettings(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("every", serving(everything()))
	w.tool("mcp__every__echo")

	change := func(f func(*toolserver.Record)) {
		w.store.mu.Lock()
		changed := w.store.servers[0]
		f(&changed)
		changed.UpdatedAt = time.Now()
		w.store.servers = []toolserver.Record{changed}
		w.store.mu.Unlock()
		w.manager.mu.Lock()
		clear(w.manager.known)
		w.manager.mu.Unlock()
	}
	change(func(s *toolserver.Record) { s.Tools = []string{"echo", "none"} })
	require.Len(t, w.offered(), 1)
	change(func(s *toolserver.Record) { s.TrustHints, s.TimeoutS = false, 3600 })

	echo := w.offered()["mcp__every__echo"]
	require.True(t, echo.Acts, "hints of a server that is not believed count for nothing")
	require.Greater(t, echo.TimeLimit, time.Hour)
	require.LessOrEqual(t, echo.TimeLimit, tools.MaxTimeLimit)

	started, _ := w.launcher.running()
	require.Equal(t, 1, started)
	change(func(s *toolserver.Record) { s.Env = map[string]string{"A": "1"} })
	w.tool("mcp__every__echo")
	require.Eventually(t, func() bool { started, alive := w.launcher.running(); return started == 2 && alive == 1 }, soon, tick)
	stale, err := echo.Run(t.Context(), newCall(`{"text":"x"}`))
	require.NoError(t, err)
	require.True(t, stale.IsError)
	require.Contains(t, stale.Output, "changed or removed")
	change(func(s *toolserver.Record) { s.Enabled = false })
	require.Empty(t, w.offered())
}

func TestCrowdedMachine(t *testing.T) {
	t.Parallel()

	w := newEnv(t, func(c *Config) { c.MaxProcesses = 2 })
	for _, name := range []string{"a", "b", "c"} {
		w.stdio(name, serving(everything()))
	}

	for range 3 { // each is there when it is used, and not more than two at once
		for _, name := range []string{"a", "b", "c"} {
			result, err := w.call(t.Context(), "mcp__"+name+"__echo", `{"text":"x"}`)
			if err == nil && !result.IsError {
				require.Equal(t, "You said x", result.Output)
			}
		}

		require.Eventually(t, func() bool { _, alive := w.launcher.running(); return alive <= 3 }, soon, tick)
	}
}

func TestManager_configuredServersOfTheProfile(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("every", serving(everything()))
	w.store.servers[0].Scope = toolserver.OfService
	w.launcher.programs["other"] = serving(everything())
	scope := tools.Scope{Session: session, Profile: domain.Profile{MCPServers: []domain.MCPServer{
		{Name: "every", Transport: toolserver.Stdio, Command: "other", Tools: []string{"echo"}, Enabled: true},
		{Name: "Bad Name", Transport: toolserver.Stdio, Command: "other", Enabled: true},
	}}}

	var offered []tools.Tool

	require.Eventually(t, func() bool { offered = w.manager.Tools(t.Context(), scope); return len(offered) > 0 }, soon, tick)
	require.Len(t, offered, 1)
	require.Equal(t, "mcp__every__echo", offered[0].Name)
}
