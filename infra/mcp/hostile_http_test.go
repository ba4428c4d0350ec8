package mcp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
)

func TestHostileServersByHTTP(t *testing.T) {
	t.Parallel()

	trusted := func(s *toolserver.Record) { s.Trusted = true }
	short := func(s *toolserver.Record) { s.TimeoutS = 2 }
	front := func(t *testing.T, w *env, name string, handle http.HandlerFunc, change ...func(*toolserver.Record)) {
		server := httptest.NewServer(handle)
		t.Cleanup(server.Close)
		t.Cleanup(server.CloseClientConnections)
		t.Cleanup(w.manager.Close)
		w.add(
			domain.MCPServer{Name: name, Transport: toolserver.HTTP, URL: server.URL + "/mcp?key=s3cret-in-url"},
			append(change, trusted)...)
	}
	failing := func(t *testing.T, w *env, name string) string {
		w.offered()
		require.Eventually(t, func() bool { return w.store.state(name).Status == toolserver.Failed }, soon, tick)
		require.NotContains(t, w.store.state(name).Error+w.log.String(), "s3cret")

		return w.store.state(name).Error
	}
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t, func(c *Config) { c.ConnectTime = time.Second })
		front(t, w, "hang", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does it notice that the client leaves
			<-r.Context().Done()
		})
		require.Contains(t, failing(t, w, "hang"), "does not answer")
	})
	t.Run("hangs on the stream of notices", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t, func(c *Config) { c.ConnectTime = time.Second })
		plain := answering(nil)

		front(t, w, "notices", func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				<-r.Context().Done()
				return
			}

			plain(rw, r)
		})
		failing(t, w, "notices")
	})
	t.Run("is not a tool server", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		front(t, w, "page", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("<html>")) })
		require.Contains(t, failing(t, w, "page"), "unsupported content type")
	})
	t.Run("wants a key", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		front(t, w, "locked", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) })
		require.Contains(t, failing(t, w, "locked"), "Unauthorized")
	})
	t.Run("redirects elsewhere", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		front(t, w, "away", func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://127.0.0.2:9/", http.StatusTemporaryRedirect)
		})
		require.Contains(t, failing(t, w, "away"), "redirects to another host")
	})
	t.Run("floods", func(t *testing.T) {
		t.Parallel()

		for _, kind := range []string{"application/json", "text/event-stream"} {
			w := newEnv(t)
			front(t, w, "flood", answering(func(rw http.ResponseWriter, _ *http.Request, method string, _ json.RawMessage) bool {
				if method != "tools/call" {
					return false
				}

				rw.Header().Set("Content-Type", kind)

				chunk := []byte("data: " + strings.Repeat("x", 1<<20))
				for range 200 {
					if _, err := rw.Write(chunk); err != nil {
						break
					}
				}

				return true
			}))
			result, err := w.call(t.Context(), "mcp__flood__act", `{}`)
			require.NoError(t, err)
			require.True(t, result.IsError, kind)
			require.Less(t, len(result.Output), 1000)
		}
	})
	t.Run("ends the answer early", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		front(t, w, "cut", answering(func(rw http.ResponseWriter, _ *http.Request, method string, _ json.RawMessage) bool {
			if method != "tools/call" {
				return false
			}

			rw.Header().Set("Content-Type", "text/event-stream")

			return true
		}))
		result, err := w.call(t.Context(), "mcp__cut__act", `{}`)
		require.NoError(t, err)
		require.Contains(t, result.Output, "may have taken effect")
		_, err = w.call(t.Context(), "mcp__cut__look", `{}`)
		require.Error(t, err)
	})
	t.Run("hangs in a call", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		front(t, w, "slow", answering(func(_ http.ResponseWriter, r *http.Request, method string, _ json.RawMessage) bool {
			if method == "tools/call" {
				<-r.Context().Done()
				return true
			}

			return false
		}), short)
		result, err := w.call(t.Context(), "mcp__slow__act", `{}`)
		require.NoError(t, err)
		require.Contains(t, result.Output, "longer than 2s")
	})
	t.Run("is gone", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		server := httptest.NewServer(answering(nil))
		w.add(domain.MCPServer{Name: "gone", Transport: toolserver.HTTP, URL: server.URL}, trusted)
		tool := w.tool("mcp__gone__act")

		server.CloseClientConnections()
		server.Close()

		result, err := tool.Run(t.Context(), newCall(`{}`))
		require.NoError(t, err)
		require.True(t, result.IsError) // the call was perhaps sent on the old connection
		result, err = tool.Run(t.Context(), newCall(`{}`))
		require.NoError(t, err)
		require.Contains(t, result.Output, "nothing was done")
		require.NotContains(t, result.Output, server.URL)
	})
}

// answering returns a server that speaks plain JSON; change may answer a request instead.
func answering(change func(rw http.ResponseWriter, r *http.Request, method string, id json.RawMessage) bool) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			rw.WriteHeader(http.StatusMethodNotAllowed)
			return
		}

		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.NewDecoder(r.Body).Decode(&request) != nil || request.ID == nil {
			rw.WriteHeader(http.StatusAccepted)
			return
		}

		if change != nil && change(rw, r, request.Method, request.ID) {
			return
		}

		rw.Header().Set("Content-Type", "application/json")

		switch request.Method {
		case "initialize":
			_, _ = rw.Write(reply(request.ID, hello))
		case "tools/list":
			_, _ = rw.Write(reply(request.ID, oneTool))
		case "tools/call":
			_, _ = rw.Write(reply(request.ID, `{"content":[{"type":"text","text":"fine"}]}`))
		}
	}
}
