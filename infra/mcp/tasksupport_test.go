package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/toolserver"
)

// taskList is a list with a tool for each value of taskSupport.
const taskList = `{"tools":[` +
	`{"name":"plain","inputSchema":{"type":"object"}},` +
	`{"name":"forbidden","inputSchema":{"type":"object"},"execution":{"taskSupport":"forbidden"}},` +
	`{"name":"optional","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},` +
	`{"execution":{"taskSupport":"required"},"name":"slow","inputSchema":{"type":"object"}}]}`

// TestManager_toolsThatRequireTasks holds that tools which a server runs only as tasks are
// not offered, whatever the transport.
func TestManager_toolsThatRequireTasks(t *testing.T) {
	t.Parallel()

	offered := []string{"mcp__tasks__plain", "mcp__tasks__forbidden", "mcp__tasks__optional"}
	listed := func(id json.RawMessage) []byte { return reply(id, taskList) }

	overHTTP := func(contentType, format string) func(w *env) {
		return func(w *env) {
			w.http("tasks", answering(func(rw http.ResponseWriter, _ *http.Request, method string, id json.RawMessage) bool {
				if method != "tools/list" {
					return false
				}

				rw.Header().Set("Content-Type", contentType)
				_, _ = fmt.Fprintf(rw, format, listed(id))

				return true
			}))
		}
	}

	for name, add := range map[string]func(w *env){
		"stdio": func(w *env) {
			w.stdio("tasks", polite(func(method string, id, _ json.RawMessage) []byte {
				if method == "tools/list" {
					return listed(id)
				}

				return nil
			}))
		},
		"json":               overHTTP("application/json", "%s"),
		"event stream":       overHTTP("text/event-stream", "event: message\ndata: %s\n\n"),
		"event stream, CRLF": overHTTP("text/event-stream", ": hello\r\n\r\ndata:%s\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newEnv(t)
			add(w)

			names := []string{}
			for tool := range w.atFirst(3) {
				names = append(names, tool)
			}

			require.ElementsMatch(t, offered, names)
			require.Eventually(t, func() bool { return w.store.state("tasks").Status == toolserver.Connected }, soon, tick)
			require.Contains(t, w.store.state("tasks").Error, `tool "slow": its server runs it only as a task`)
		})
	}
}

// TestManager_signInByOAuth holds that a server which answers 401 with the metadata of its
// sign-in fails with what to do about it.
func TestManager_signInByOAuth(t *testing.T) {
	t.Parallel()

	const challenge = `Bearer error="invalid_token", resource_metadata="https://a.example/.well-known/oauth-protected-resource"`

	refuse := func(rw http.ResponseWriter, body string) {
		rw.Header().Set("WWW-Authenticate", challenge)
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusUnauthorized)
		_, _ = rw.Write([]byte(body))
	}

	for name, body := range map[string]string{
		"empty": "", "error of OAuth": `{"error":"invalid_token"}`,
		"error of JSON-RPC": `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Unauthorized"}}`,
	} {
		t.Run("connecting, "+name, func(t *testing.T) {
			t.Parallel()

			w := newEnv(t)
			w.http("locked", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { refuse(rw, body) }))
			w.offered()
			require.Eventually(t, func() bool { return w.store.state("locked").Status == toolserver.Failed }, soon, tick)
			require.Contains(t, w.store.state("locked").Error, "sign-in with OAuth")
			require.Contains(t, w.store.state("locked").Error, "Authorization")
		})

		t.Run("in a call, "+name, func(t *testing.T) {
			t.Parallel()

			expired := make(chan struct{})

			w := newEnv(t)
			w.http("locked", answering(func(rw http.ResponseWriter, _ *http.Request, _ string, _ json.RawMessage) bool {
				select {
				case <-expired:
					refuse(rw, body)
					return true
				default:
					return false
				}
			}))
			tool := w.tool("mcp__locked__act")
			close(expired)

			result, err := tool.Run(t.Context(), newCall(`{}`))
			require.NoError(t, err)
			require.True(t, result.IsError)
			require.Contains(t, result.Output, "nothing was done")
			require.Contains(t, result.Output, "sign-in with OAuth")
		})
	}
}
