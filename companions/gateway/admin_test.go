package gateway_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/gateway"
)

const commented = `# the head
keys:
  # of the editor
  - {name: editor, key: key-of-the-editor} # beside it
sources:
  - name: s
    kind: openai
    base_url: http://127.0.0.1:1 # the address
    api_key: secret-of-the-source
# of names
aliases:
  a: m # an alias
  b: m
`

func TestAdmin_config_keepsCommentsAndSecrets(t *testing.T) {
	t.Parallel()
	s := start(t, commented, 0)
	res := s.do(t.Context(), "GET", "/admin/config", operatorKey, "")
	text := read(t, res)
	require.NotContains(t, text, "secret-of")
	require.NotContains(t, text, "key-of")

	var set map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &set))
	source := set["sources"].([]any)[0].(map[string]any)
	require.Equal(t, "***", source["api_key"])

	source["max_concurrency"] = 3
	set["default_model"] = "m"
	set["aliases"] = map[string]any{"a": "other", "c": "default_model"}
	changed, err := json.Marshal(set)
	require.NoError(t, err)
	put := s.do(t.Context(), "PUT", "/admin/config", operatorKey, string(changed))
	require.Equal(t, 200, put.StatusCode, read(t, put))

	kept, err := os.ReadFile(filepath.Join(s.dir, "config.yaml"))
	require.NoError(t, err)

	for _, part := range []string{
		"# the head", "# of the editor", "# beside it", "# the address", "# of names", "a: other # an alias", "c: default_model",
		"key-of-the-editor", "secret-of-the-source", "max_concurrency: 3", "default_model: m",
	} {
		require.Contains(t, string(kept), part)
	}

	require.NotContains(t, string(kept), "b: m")
	require.NotContains(t, string(kept), "***")
	require.Equal(t, 200, s.do(t.Context(), "GET", "/admin/usage", "key-of-the-editor", "").StatusCode)
}

func TestAdmin_config_rejects(t *testing.T) {
	t.Parallel()
	s := start(t, commented, 0)

	const moved = `{"sources":[{"name":"s","kind":"openai","base_url":"http://127.0.0.1:2","api_key":"***"}]}`

	withKey := func(name, key string) string {
		return `{"sources":[{"name":"s","kind":"demo"}],"keys":[{"name":"` + name + `","key":"` + key + `"}]}`
	}
	for name, c := range map[string]struct {
		key, body, code string
		status          int
	}{
		"another key":       {"key-of-the-editor", `{}`, "operator_only", 403},
		"no key":            {"", `{}`, "invalid_api_key", 401},
		"not JSON":          {operatorKey, `x`, "invalid_request", 400},
		"no object":         {operatorKey, `[]`, "invalid_config", 422},
		"wrong type":        {operatorKey, `{"sources":[{"name":5}]}`, "invalid_config", 422},
		"no administrator":  {"el_user", `{}`, "operator_only", 403},
		"scopes":            {"el_restricted", `{}`, "operator_only", 403},
		"unknown key":       {"el_unknown", `{}`, "invalid_api_key", 401},
		"agent is down":     {"el_down", `{}`, "agent_unavailable", 503},
		"no source":         {operatorKey, `{}`, "invalid_config", 422},
		"key to an address": {operatorKey, moved, "invalid_config", 422},
		"operator's key":    {operatorKey, withKey("second", operatorKey), "invalid_config", 422},
		"operator's name":   {operatorKey, withKey("operator", "key-of-another-one"), "invalid_config", 422},
	} {
		res := s.do(t.Context(), "PUT", "/admin/config", c.key, c.body)
		text := read(t, res)
		require.Equal(t, c.status, res.StatusCode, name)
		require.Equal(t, c.code, code(t, text), name)
		require.NotContains(t, text, `"message":" `, "%s: what is wrong is named", name)
	}

	r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/admin/config", strings.NewReader(moved))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+operatorKey)
	r.Header.Set("If-Match", `"old"`)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)

	defer res.Body.Close()

	require.Equal(t, 412, res.StatusCode)

	text, err := os.ReadFile(filepath.Join(s.dir, "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, commented, string(text))
}

// What is in a file that is no YAML is not lost by a change of the settings.
func TestAdmin_config_leavesAnUnreadableFile(t *testing.T) {
	t.Parallel()
	s := start(t, commented, 0)
	set := read(t, s.do(t.Context(), "GET", "/admin/config", operatorKey, ""))
	file := filepath.Join(s.dir, "config.yaml")
	broken := commented + "keys: [\n"
	require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))

	res := s.do(t.Context(), "PUT", "/admin/config", operatorKey, set)
	require.Equal(t, 409, res.StatusCode)
	require.Equal(t, "config_unreadable", code(t, read(t, res)))

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, broken, string(text))
}

// The key of the operator opens the management also where the file has it as another's.
func TestNew_refusesTheOperatorsKeyInTheFile(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "config.yaml")
	settings := "sources: [{name: s, kind: demo}]\nkeys: [{name: second, key: " + operatorKey + "}]\n"
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	_, err := gateway.New(gateway.Config{File: file, Key: operatorKey})
	require.ErrorContains(t, err, "keys[0].key must not be the operator's key")
}

// An API key of an administrator of the agent manages the gateway. It is no key of its
// models.
func TestAdmin_config_administrators(t *testing.T) {
	t.Parallel()
	s := start(t, commented, 0)

	const settings = `{"sources":[{"name":"s","kind":"openai","base_url":"http://127.0.0.1:1","api_key":"***","zz":1}],"zz":{}}`

	put := s.do(t.Context(), "PUT", "/admin/config", "el_administrator", settings)
	require.Equal(t, 200, put.StatusCode, read(t, put))
	require.Equal(t, 200, s.do(t.Context(), "GET", "/admin/config", "el_administrator", "").StatusCode)
	require.Equal(t, 200, s.do(t.Context(), "GET", "/admin/usage", "el_administrator", "").StatusCode)
	require.Equal(t, 401, s.do(t.Context(), "GET", "/v1/models", "el_administrator", "").StatusCode)
	require.Equal(t, 403, s.do(t.Context(), "GET", "/admin/usage", "el_user", "").StatusCode)
}

func TestAdmin_page(t *testing.T) {
	t.Parallel()
	res := start(t, commented, 0).do(t.Context(), "GET", "/admin", "", "")
	require.Contains(t, res.Header.Get("Content-Security-Policy"), "script-src 'sha256-")
	require.Contains(t, read(t, res), "Model gateway")
}

// What a killed process has left of files that it replaced is removed at a start: it holds keys.
func TestService_Serve_removesUnfinishedFiles(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(one(upstream(t, http.NotFound), "")), 0o600))

	for _, name := range []string{".config.yaml.123456", ".usage.json.4294967295", ".config.yaml.swp", ".other.1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("keys"), 0o600))
	}

	service, err := gateway.New(gateway.Config{File: file, Key: operatorKey})
	require.NoError(t, err)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, service.Serve(ctx, listener))

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)

	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}

	require.Equal(t, []string{".config.yaml.swp", ".other.1", "config.yaml"}, names)
}
