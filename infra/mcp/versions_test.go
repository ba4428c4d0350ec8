package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// methods records the requests that a server received.
type methods struct {
	mu   sync.Mutex
	list []string
}

func (m *methods) add(method string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.list = append(m.list, method)
}

func (m *methods) count(method string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for _, one := range m.list {
		if one == method {
			n++
		}
	}

	return n
}

const (
	discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},` +
		`"serverInfo":{"name":"fake","version":"1"}}`
	unknownVersion = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported protocol version",` +
		`"data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`
)

// modern answers as a server of version 2026-07-28 alone.
func modern(method string, id json.RawMessage) []byte {
	switch method {
	case "initialize":
		return fmt.Appendf(nil, unknownVersion, id)
	case "server/discover":
		return reply(id, discovered)
	case "subscriptions/listen":
		return silence
	}

	return nil
}

func TestDial_versions(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		answer      func(seen *methods, method string, id json.RawMessage) []byte
		discoveries int // of two connections
		initialized int
	}{
		"newest version alone": {
			func(_ *methods, method string, id json.RawMessage) []byte { return modern(method, id) }, 2, 0,
		},
		"both versions": {
			func(_ *methods, method string, id json.RawMessage) []byte {
				if method == "initialize" {
					return nil
				}

				return modern(method, id)
			}, 2, 0,
		},
		"newest version alone, slow to answer": {
			func(seen *methods, method string, id json.RawMessage) []byte {
				if method == "server/discover" && seen.count(method) == 1 {
					return silence
				}

				return modern(method, id)
			}, 3, 1,
		},
		"unknown method refused": {
			func(*methods, string, json.RawMessage) []byte { return nil }, 2, 2,
		},
		"unknown method unanswered": {
			func(_ *methods, method string, _ json.RawMessage) []byte {
				if method == "server/discover" {
					return silence
				}

				return nil
			}, 1, 2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var seen methods

			w := newEnv(t)
			answer := func(method string, id, _ json.RawMessage) []byte {
				seen.add(method)
				return c.answer(&seen, method, id)
			}
			w.stdio("any", polite(answer))

			for range 2 {
				result, err := w.call(t.Context(), "mcp__any__act", `{}`)
				require.NoError(t, err)
				require.Equal(t, "fine", result.Output)
				w.link("any").rest(linkIdle)
			}

			require.Equal(t, c.discoveries, seen.count("server/discover"))
			require.Equal(t, c.initialized, seen.count("initialize"))
		})
	}
}

func TestDial_unknownMethodEndsServer(t *testing.T) {
	t.Parallel()

	var seen methods

	w := newEnv(t)
	w.stdio("strict", func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)

		served := make(chan error, 1)
		go func() {
			served <- polite(func(method string, _, _ json.RawMessage) []byte {
				seen.add(method)

				if method == "server/discover" {
					end(errors.New("initialize expected"))
					return silence
				}

				return nil
			})(ctx, in, out, errs)
		}()

		select {
		case err := <-served:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})

	for range 2 {
		result, err := w.call(t.Context(), "mcp__strict__act", `{}`)
		require.NoError(t, err)
		require.Equal(t, "fine", result.Output)
		w.link("strict").rest(linkIdle)
	}

	started, _ := w.launcher.running()
	require.Equal(t, 3, started, "the version is remembered")
	require.Equal(t, 1, seen.count("server/discover"))
}

func TestDial_versionsOverHTTP(t *testing.T) {
	t.Parallel()

	sdkServer := func(versions ...string) (*sdk.Server, http.Handler) {
		server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: versions})
		addTool(server, "act")

		return server, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
			&sdk.StreamableHTTPOptions{Stateless: versions[0] == newestVersion})
	}

	t.Run("newest version with a changed list", func(t *testing.T) {
		t.Parallel()

		w := newEnv(t)
		server, handler := sdkServer("2026-07-28")
		w.http("web", handler)

		result, err := w.call(t.Context(), "mcp__web__act", `{}`)
		require.NoError(t, err)
		require.Equal(t, "done", result.Output)
		require.Equal(t, "2026-07-28", w.link("web").conn.session.InitializeResult().ProtocolVersion)

		addTool(server, "more")
		w.tool("mcp__web__more")
	})
	t.Run("legacy version", func(t *testing.T) {
		t.Parallel()

		w := newEnv(t)
		_, handler := sdkServer("2025-06-18")
		w.http("web", handler)

		result, err := w.call(t.Context(), "mcp__web__act", `{}`)
		require.NoError(t, err)
		require.Equal(t, "done", result.Output)
	})

	for name, answer := range map[string]http.HandlerFunc{
		"unknown method unanswered": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"unknown method closes the connection": func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		},
		"unknown method answered with a page": func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("<html>")) },
		"unknown method accepted":             func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusAccepted) },
		"unknown method fails": func(rw http.ResponseWriter,
			_ *http.Request,
		) {
			rw.WriteHeader(http.StatusInternalServerError)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newEnv(t)
			_, handler := sdkServer("2025-11-25")

			w.http("web", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}

				if bytes.Contains(body, []byte("server/discover")) || bytes.Contains(body, []byte("notifications/cancelled")) {
					answer(rw, r)
					return
				}

				r.Body = io.NopCloser(bytes.NewReader(body))
				handler.ServeHTTP(rw, r)
			}))

			result, err := w.call(t.Context(), "mcp__web__act", `{}`)
			require.NoError(t, err)
			require.Equal(t, "done", result.Output)
		})
	}
}

func TestCall_inputRequired(t *testing.T) {
	t.Parallel()

	w := newEnv(t)
	w.stdio("asks", polite(func(method string, id, _ json.RawMessage) []byte {
		if method == "tools/call" {
			return reply(id, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":`+
				`{"mode":"form","message":"Which branch?","requestedSchema":{"type":"object","properties":{"branch":{"type":"string"}}}}},`+
				`"b":{"method":"roots/list","params":{}}}}`)
		}

		return modern(method, id)
	}))

	result, err := w.call(t.Context(), "mcp__asks__act", `{}`)
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Contains(t, result.Output, "requests input, which is not supported. It requests an answer of the user: Which branch?; a list")
}

// addTool adds a tool without arguments to a server.
func addTool(server *sdk.Server, name string) {
	sdk.AddTool(server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
	})
}

// http configures a trusted server that is reached by HTTP.
func (w *env) http(name string, handler http.Handler) {
	server := httptest.NewServer(handler)
	w.t.Cleanup(server.Close)
	w.t.Cleanup(server.CloseClientConnections)
	w.t.Cleanup(w.manager.Close)
	w.add(domain.MCPServer{Name: name, Transport: toolserver.HTTP, URL: server.URL}, func(s *toolserver.Record) { s.Trusted = true })
}

// link returns the link of the session with a server.
func (w *env) link(name string) *link {
	w.manager.mu.Lock()
	defer w.manager.mu.Unlock()

	found := w.manager.links[linkKey{session.ID, name}]
	require.NotNil(w.t, found)

	return found
}
