package api_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/infra/secrets"
	"everloop/service/toolservers"
)

// boxKey is the key of every world.
const boxKey = "a key of the tests, long enough to be one"

// lookers stand for the workers.
type lookers struct {
	mu      sync.Mutex
	looked  []string
	changed []string
	users   []string
	onLook  func(sessionID domain.SessionID)
}

func (l *lookers) Look(_ context.Context, sessionID domain.SessionID) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.looked = append(l.looked, string(sessionID))
	if l.onLook != nil {
		l.onLook(sessionID)
	}

	return nil
}

func (l *lookers) ServerChanged(_ context.Context, serverID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.changed = append(l.changed, serverID)

	return nil
}

func (l *lookers) UserDeleted(_ context.Context, userID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.users = append(l.users, userID)

	return nil
}

// mcpBad are settings of tool servers that are refused.
var mcpBad = []bad{
	{body: `{"solution_id":"s","transport":"stdio","command":"x"}`, at: "body.name"},
	{body: `{"solution_id":"s","name":"a","command":"x"}`, at: "body.transport"},
	{body: `{"solution_id":"s","name":"A","transport":"stdio","command":"x"}`, at: "body.name"},
	{body: `{"solution_id":"s","name":"","transport":"stdio","command":"x"}`, at: "body.name"},
	{body: `{"solution_id":"s","name":"` + strings.Repeat("a", 65) + `","transport":"stdio","command":"x"}`, at: "body.name"},
	{body: `{"solution_id":"s","name":"a","transport":"carrier pigeon"}`, at: "body.transport"},
	{body: `{"solution_id":"s","name":"a","transport":"stdio"}`, at: "body.command"},
	{body: `{"solution_id":"s","name":"a","transport":"stdio","command":"x","url":"http://x"}`, at: "body.url"},
	{body: `{"solution_id":"s","name":"a","transport":"http","url":"ftp://x"}`, at: "body.url"},
	{body: `{"solution_id":"s","name":"a","transport":"http","url":"http://user:s3cret@x/"}`, at: "body.url"},
	{body: `{"solution_id":"s","name":"a","transport":"http"}`, at: "body.url"},
	{body: `{"solution_id":"s","name":"a","transport":"http","url":"http://x","command":"y"}`, at: "body.command"},
	{body: `{"solution_id":"s","name":"a","transport":"http","url":"http://x","headers":{"Host":"y"}}`, at: "body.headers"},
	{body: `{"solution_id":"s","name":"a","transport":"http","url":"http://x","headers":{"X":"a\r\nY: b"}}`, at: "body.headers"},
	{body: `{"solution_id":"s","name":"a","transport":"http","url":"http://x","headers":{"a b":"c"}}`, at: "body.headers"},
	{body: `{"solution_id":"s","name":"a","transport":"stdio","command":"x","env":{"A=B":"c"}}`, at: "body.env"},
	{body: `{"solution_id":"s","name":"a","transport":"stdio","command":"x","args":["a\u0000b"]}`, at: "body.args"},
	{body: `{"solution_id":"s","name":"a","transport":"stdio","command":"x","timeout_s":3601}`, at: "body.timeout_s"},
	{body: `{"solution_id":"s","scope":"session","name":"a","transport":"stdio","command":"x"}`, at: "body.session_id"},
	{body: `{"scope":"solution","name":"a","transport":"stdio","command":"x"}`, at: "body.solution_id"},
	{body: `{"solution_id":"s","name":"a","preset":"teapot"}`, at: "body.preset"},
	{body: `{"solution_id":"s","name":"a","preset":"browser","transport":"http"}`, at: "body.transport"},
	{body: `{"solution_id":"s","name":"a","preset":"browser","command":"x"}`, at: "body.command"},
	{body: `{"solution_id":"s","name":"a","preset":"browser","args":["x"]}`, at: "body.args"},
	{body: `{"solution_id":"s","name":"a","preset":"browser","env":{"A":"b"}}`, at: "body.env"},
}

// toolServers returns the store of the world's tool servers.
func (w *world) toolServers() *toolservers.Store {
	w.t.Helper()

	box, err := secrets.NewBox(boxKey)
	require.NoError(w.t, err)

	return toolservers.New(w.db.DB, box)
}

// toolServer configures a server, a stdio one unless more says otherwise.
func (w *world) toolServer(who, more string) string {
	w.t.Helper()

	in := map[string]any{"name": "tools-1", "transport": "stdio", "command": "node"}
	given := map[string]any{}
	require.NoError(w.t, json.Unmarshal([]byte(more), &given))
	maps.Copy(in, given)
	text, err := json.Marshal(in)
	require.NoError(w.t, err)
	r := w.do("POST", "/api/mcp-servers", who, string(text))
	require.Equal(w.t, 200, r.status, r.text)

	return r.json()["id"].(string)
}

// acceptedTool and proposedTool are definitions of a tool before and after a change.
var (
	acceptedTool = toolserver.Tool{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`)}
	proposedTool = toolserver.Tool{Name: "read", Description: "Reads <all>.", Schema: json.RawMessage(`{"type":"object"}`)}
)

// proposeTool has a server list a tool, and then another definition of it.
func (w *world) proposeTool(id string) {
	w.t.Helper()

	for _, tool := range []toolserver.Tool{acceptedTool, proposedTool} {
		_, err := w.toolServers().PinMCPTools(w.t.Context(), toolserver.Record{ID: id}, []toolserver.Tool{tool})
		require.NoError(w.t, err)
	}
}

// TestAcceptMCPServerTools_ofOwner holds that a changed tool waits until the owner of its server
// accepts the definition that was shown; other callers cannot.
func TestAcceptMCPServerTools_ofOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	own := w.toolServer(w.ann, `{"session_id":"`+session+`"}`)
	shared := w.toolServer(w.root, `{}`)
	accept := func(id, who, digest string) reply {
		return w.do("POST", "/api/mcp-servers/"+id+"/tools/accept", who, `{"tools":{"read":"`+digest+`"}}`)
	}

	for _, id := range []string{own, shared} {
		w.proposeTool(id)
	}

	require.Equal(t, 1.0, w.do("GET", "/api/mcp-servers/"+own, w.ann, "").json()["proposed_tools"])

	tool := w.do("GET", "/api/mcp-servers/"+own+"/tools", w.ann, "").json()["items"].([]any)[0].(map[string]any)
	require.Equal(t, "changed", tool["state"])
	require.Equal(t, "Reads.", tool["accepted"].(map[string]any)["description"])
	require.Equal(t, "Reads <all>.", tool["proposed"].(map[string]any)["description"])
	require.Equal(t, proposedTool.Digest(), tool["proposed"].(map[string]any)["digest"])

	accept(own, w.bob, proposedTool.Digest()).code(404, "mcp_server_not_found")
	accept(own, w.root, proposedTool.Digest()).code(403, "forbidden")
	accept(shared, w.ann, proposedTool.Digest()).code(403, "administrator_required")
	accept(own, w.ann, acceptedTool.Digest()).code(409, "tool_definition_changed")
	w.do("POST", "/api/mcp-servers/"+own+"/tools/accept", w.ann,
		`{"tools":{"read":"`+proposedTool.Digest()+`","gone":"`+proposedTool.Digest()+`"}}`).code(409, "tool_definition_changed")
	require.Equal(t, 1.0, w.do("GET", "/api/mcp-servers/"+own, w.ann, "").json()["proposed_tools"], "all or none")

	require.Equal(t, 0.0, accept(own, w.ann, proposedTool.Digest()).json()["proposed_tools"])
	require.Equal(t, 0.0, accept(shared, w.root, proposedTool.Digest()).json()["proposed_tools"])

	tool = w.do("GET", "/api/mcp-servers/"+own+"/tools", w.ann, "").json()["items"].([]any)[0].(map[string]any)
	require.Equal(t, "accepted", tool["state"])
	require.Nil(t, tool["proposed"])
	require.Contains(t, w.lookers.changed, own, "the workers are notified")
}

// TestChangeMCPServer_dropsPins holds that the tools of another program or address are not
// compared with those of the former one.
func TestChangeMCPServer_dropsPins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.toolServer(w.ann, `{"solution_id":"s"}`)
	w.proposeTool(id)

	tools := func() any { return w.do("GET", "/api/mcp-servers/"+id+"/tools", w.ann, "").json()["total"] }

	require.Equal(t, 200, w.do("PATCH", "/api/mcp-servers/"+id, w.ann, `{"timeout_s":5}`).status)
	require.Equal(t, 1.0, tools())
	require.Equal(t, 200, w.do("PATCH", "/api/mcp-servers/"+id, w.ann, `{"args":["--other"],"env":{}}`).status)
	require.Equal(t, 0.0, tools())
}

// TestSessionMCPServers_refusedByModels holds that a session shows the tool servers that a
// model server refuses.
func TestSessionMCPServers_refusedByModels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	w.toolServer(w.ann, `{"session_id":"`+session+`"}`)

	refused := func() []any {
		items := w.do("GET", "/api/sessions/"+session+"/mcp-servers", w.ann, "").json()["items"].([]any)
		return items[0].(map[string]any)["refused_by"].([]any)
	}
	require.Empty(t, refused())

	_, err := w.db.Pool.Exec(t.Context(), `
		INSERT INTO model_limits (session_id, model, kind, subject, digest, learned_at)
		VALUES ($1, 'large', 'tool_server', 'tools-1', 'a', now()), ($1, 'large', 'tool_server', 'tools-1', 'b', now()),
		       ($1, 'large', 'tool_server', 'other', 'a', now()), ($1, 'old', 'tool_server', 'tools-1', 'a', now() - interval '2 days')`, session)
	require.NoError(t, err)
	require.Len(t, refused(), 1)
	require.Equal(t, "large", refused()[0].(map[string]any)["model"])
}

func TestToolServersKeepSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	id := w.toolServer(w.ann, `{"session_id":"`+session+`","args":["-x"],"env":{"TOKEN":"s3cret-token","MODE":"s3cret-mode"}}`)
	path := "/api/mcp-servers/" + id
	made := w.do("GET", path, w.ann, "")
	require.Equal(t, map[string]any{"TOKEN": "********", "MODE": "********"}, made.json()["env"])
	require.Equal(t, "session", made.json()["scope"])
	require.Equal(t, 60.0, made.json()["timeout_s"])
	require.Equal(t, true, made.json()["enabled"])
	require.Equal(t, false, made.json()["trust_hints"], "users' servers are not believed unless they say so")

	// A masked value that comes back is left as it is; what is not named is gone.
	changed := w.do("PATCH", path, w.ann, `{"env":{"TOKEN":"********"},"timeout_s":5}`)
	require.Equal(t, 200, changed.status, changed.text)
	require.Equal(t, map[string]any{"TOKEN": "********"}, changed.json()["env"])
	kept, err := w.toolServers().SessionMCPServers(t.Context(), domain.SessionID(session))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"TOKEN": "s3cret-token"}, kept[0].Env)
	require.Equal(t, 5, kept[0].TimeoutS)
	require.False(t, kept[0].Trusted)

	var row string
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT to_jsonb(m)::text || encode(sealed, 'escape') FROM mcp_servers m
		WHERE id = $1`, id).Scan(&row))
	list := w.do("GET", "/api/mcp-servers", w.ann, "").text + w.do("GET", "/api/sessions/"+session+"/mcp-servers", w.ann, "").text
	require.NotContains(t, made.text+changed.text+list+row+w.log.String(), "s3cret")

	require.Equal(t, 200, w.do("DELETE", path, w.ann, "").status)
	w.do("GET", path, w.ann, "").code(404, "mcp_server_not_found")
	require.Equal(t, []string{id, id, id}, w.lookers.changed)
}

func TestSecretsOfToolServersStayWithTheirReceiver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	const (
		http  = `"transport":"http","url":"https://a.example/mcp","command":"","headers":{"Authorization":"Bearer s3cret"}`
		stdio = `"transport":"stdio","command":"serve","args":["-x"],"env":{"TOKEN":"s3cret"}`
		three = `"transport":"stdio","command":"serve","env":{"TOKEN":"s3cret","API_KEY":"s3cret-2","API_URL":"https://a.example"}`
	)

	for name, c := range map[string]struct {
		made, change string
		ok           bool
	}{
		"another host":                        {http, `"url":"https://b.example/mcp"`, false},
		"another path":                        {http, `"url":"https://a.example/other"`, false},
		"another scheme":                      {http, `"url":"http://a.example/mcp"`, false},
		"another query":                       {http, `"url":"https://a.example/mcp?x=1"`, false},
		"another host, the masked header":     {http, `"url":"https://b.example/mcp","headers":{"Authorization":"********"}`, false},
		"another host, one masked header":     {http, `"url":"https://b.example/mcp","headers":{"Authorization":"********","X":"y"}`, false},
		"another transport":                   {http, `"transport":"stdio","url":"","command":"env","headers":{"Authorization":"********"}`, false},
		"another command":                     {stdio, `"command":"env"`, false},
		"other arguments":                     {stdio, `"args":["-y"]`, false},
		"no arguments":                        {stdio, `"args":[]`, false},
		"another command, the masked value":   {stdio, `"command":"env","env":{"TOKEN":"********"}`, false},
		"another transport, of stdio":         {stdio, `"transport":"http","command":"","args":[],"url":"https://b.example/"`, false},
		"another host with a new header":      {http, `"url":"https://b.example/mcp","headers":{"Authorization":"Bearer other"}`, true},
		"another host without headers":        {http, `"url":"https://b.example/mcp","headers":{}`, true},
		"another command with a new value":    {stdio, `"command":"env","env":{"TOKEN":"other"}`, true},
		"another command without environment": {stdio, `"command":"env","env":{}`, true},
		"the same address":                    {http, `"url":"https://a.example/mcp","timeout_s":5`, true},
		"the same command":                    {stdio, `"command":"serve","args":["-x"],"env":{"TOKEN":"********"}`, true},
		"the same transport":                  {stdio, `"transport":"stdio"`, true},

		"a preloaded library, the masked value": {stdio, `"env":{"TOKEN":"********","LD_PRELOAD":"/tmp/x.so"}`, false},
		"options of node, the masked value":     {stdio, `"env":{"TOKEN":"********","NODE_OPTIONS":"--require /tmp/x"}`, false},
		"a proxy, the masked value":             {stdio, `"env":{"TOKEN":"********","https_proxy":"http://b.example"}`, false},
		"any new variable, the masked value":    {stdio, `"env":{"TOKEN":"********","BASE":""}`, false},
		"a masked value of a new variable":      {stdio, `"env":{"TOKEN":"********","BASE":"********"}`, false},
		"another stored address, masked values": {
			three, `"env":{"TOKEN":"********","API_KEY":"********","API_URL":"https://b.example"}`, false,
		},
		"a proxy, the value in clear":           {stdio, `"env":{"TOKEN":"other","https_proxy":"http://b.example"}`, true},
		"a proxy without the stored value":      {stdio, `"env":{"https_proxy":"http://b.example"}`, true},
		"another value of one of three secrets": {three, `"env":{"TOKEN":"********","API_KEY":"other","API_URL":"********"}`, true},
		"one variable less":                     {three, `"env":{"TOKEN":"********","API_KEY":"********"}`, true},
	} {
		session := w.session(`{}`)
		id := w.toolServer(w.ann, `{"session_id":"`+session+`",`+c.made+`}`)

		r := w.do("PATCH", "/api/mcp-servers/"+id, w.ann, `{`+c.change+`}`)
		require.NotContains(t, r.text, "s3cret", name)

		if c.ok {
			require.Equal(t, 200, r.status, "%s: %s", name, r.text)
			continue
		}

		r.code(422, "secrets_required")

		kept, err := w.toolServers().SessionMCPServers(t.Context(), domain.SessionID(session))
		require.NoError(t, err)
		require.Contains(t, kept[0].Env["TOKEN"]+kept[0].Headers["Authorization"], "s3cret", name)
	}
}

func TestWhoseToolServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{"solution_id":"general"}`)
	own := w.toolServer(w.ann, `{"session_id":"`+session+`"}`)
	w.do("POST", "/api/mcp-servers", w.ann, `{"session_id":"`+session+`","name":"tools-1","transport":"stdio","command":"x"}`).
		code(409, "mcp_server_name_taken")
	w.do("POST", "/api/mcp-servers", w.bob, `{"session_id":"`+session+`","name":"b","transport":"stdio","command":"x"}`).
		code(404, "session_not_found")
	w.do("POST", "/api/mcp-servers", w.root, `{"session_id":"`+session+`","name":"b","transport":"stdio","command":"x"}`).
		code(403, "forbidden")
	w.do("POST", "/api/mcp-servers", w.ann, `{"name":"b","transport":"stdio","command":"x"}`).code(403, "administrator_required")
	shared := w.toolServer(w.root, `{"args":["--inside"]}`)
	require.Equal(t, true, w.do("GET", "/api/mcp-servers/"+shared, w.root, "").json()["trust_hints"])
	w.toolServer(w.root, `{"name":"other"}`)
	bobs := w.toolServer(w.bob, `{"solution_id":"general","name":"bobs"}`)
	anns := w.toolServer(w.ann, `{"solution_id":"general","name":"other"}`)

	// How a server of the service is reached is for administrators; that it is
	// there, for all users.
	require.Equal(t, "", w.do("GET", "/api/mcp-servers/"+shared, w.ann, "").json()["command"])
	require.Equal(t, "node", w.do("GET", "/api/mcp-servers/"+shared, w.root, "").json()["command"])
	w.do("PATCH", "/api/mcp-servers/"+shared, w.ann, `{"enabled":false}`).code(403, "administrator_required")
	w.do("DELETE", "/api/mcp-servers/"+shared, w.ann, "").code(403, "administrator_required")
	w.do("GET", "/api/mcp-servers/"+own, w.bob, "").code(404, "mcp_server_not_found")
	w.do("DELETE", "/api/mcp-servers/"+own, w.bob, "").code(404, "mcp_server_not_found")
	w.do("DELETE", "/api/mcp-servers/"+own, w.root, "").code(403, "forbidden")

	names := func(r reply) (out []string) {
		for _, item := range r.json()["items"].([]any) {
			out = append(out, item.(map[string]any)["id"].(string))
		}

		return out
	}
	require.ElementsMatch(t, []string{bobs}, names(w.do("GET", "/api/mcp-servers?scope=solution", w.bob, "")))
	require.ElementsMatch(t, []string{own}, names(w.do("GET", "/api/mcp-servers?session_id="+session, w.ann, "")))

	// A session's own goes before its solution's, and that before the service's;
	// another user's servers for the same solution are not shared.
	require.ElementsMatch(t, []string{own, anns}, names(w.do("GET", "/api/sessions/"+session+"/mcp-servers", w.ann, "")))
	w.do("GET", "/api/sessions/"+session+"/mcp-servers", w.bob, "").code(404, "session_not_found")

	// A restricted key of an administrator cannot configure for all users.
	key := w.do("POST", "/api/user/api-keys", w.root, `{"name":"k","scopes":["sessions:write"]}`).json()["plaintext"].(string)
	w.do("POST", "/api/mcp-servers", key, `{"name":"c","transport":"stdio","command":"x"}`).code(403, "scope_missing")

	var audited int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'mcp_server.create'
		AND details->>'scope' = 'service'`).Scan(&audited))
	require.Equal(t, 2, audited)
}

func TestToolServersOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	path := "/api/sessions/" + session + "/mcp-servers"
	require.Empty(t, w.do("GET", path, w.ann, "").json()["items"])
	require.Empty(t, w.lookers.looked, "nothing to look at")
	id := w.toolServer(w.ann, `{"session_id":"`+session+`","tools":["look","act"],"trust_hints":true}`)
	server := func(who string) map[string]any {
		return w.do("GET", path, who, "").json()["items"].([]any)[0].(map[string]any)
	}
	require.Equal(t, "connecting", server(w.ann)["status"])
	require.Equal(t, []string{session}, w.lookers.looked)

	state := toolserver.Connection{
		SessionID: domain.SessionID(
			session,
		),
		Name:        "tools-1",
		Fingerprint: "f",
		Status:      toolserver.Connected,
		Error:       "1 tools are not offered",
		Tools: []toolserver.Tool{
			{Name: "look", Description: "Looks", Schema: json.RawMessage(`{"type":"object"}`), ReadOnly: true},
			{Name: "act", Schema: json.RawMessage(`{"type":"object"}`)},
			{Name: "hidden", Schema: json.RawMessage(`{}`)},
		},
	}
	w.lookers.onLook = func(domain.SessionID) {
		require.NoError(t, w.toolServers().SaveMCPConnection(context.Background(), state))
	}
	got := server(w.ann)
	require.Equal(t, "connected", got["status"])
	require.Equal(t, "1 tools are not offered", got["error"])
	require.Equal(t, []any{
		map[string]any{"name": "look", "description": "Looks", "read_only": true},
		map[string]any{"name": "act", "description": "", "read_only": false},
	}, got["tools"])

	w.lookers.onLook = nil

	// Others who may read the session start nothing and get no errors.
	w.do("PATCH", "/api/sessions/"+session+"/sharing", w.ann, `{"shared":true}`)
	before := len(w.lookers.looked)
	require.Nil(t, server(w.bob)["error"])
	require.Len(t, w.lookers.looked, before)

	require.Equal(t, 200, w.do("PATCH", "/api/mcp-servers/"+id, w.ann, `{"enabled":false}`).status)
	require.Equal(t, "disabled", server(w.ann)["status"])

	// What belongs to a deleted session goes with it.
	require.NoError(t, w.db.DeleteSession(t.Context(), domain.SessionID(session)))
	require.NoError(t, w.db.PurgeSession(t.Context(), domain.SessionID(session)))

	var left int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM mcp_servers) + (SELECT count(*)
		FROM mcp_connections)`).Scan(&left))
	require.Zero(t, left)
}

func TestToolServersOfADeletedUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, key := w.person("leaver", false)
	w.toolServer(key, `{"solution_id":"general"}`)
	require.Equal(t, 200, w.do("DELETE", "/api/admin/users/"+user, w.root, "").status)
	require.Equal(t, []string{user}, w.lookers.users)

	var left int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM mcp_servers`).Scan(&left))
	require.Zero(t, left)
}

func TestTooManyToolServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	session := w.session(`{}`)
	for i := range 32 {
		w.toolServer(w.ann, `{"session_id":"`+session+`","name":"n`+string(rune('a'+i/26))+string(rune('a'+i%26))+`"}`)
	}

	w.do("POST", "/api/mcp-servers", w.ann, `{"session_id":"`+session+`","name":"more","transport":"stdio","command":"x"}`).
		code(409, "too_many_mcp_servers")

	// Scopes together can be more than a session uses: the closest go first, and
	// the others say so.
	w.toolServer(w.root, `{"name":"aa"}`)
	items := w.do("GET", "/api/sessions/"+session+"/mcp-servers", w.ann, "").json()["items"].([]any)
	require.Len(t, items, 33)
	first := items[0].(map[string]any)
	require.Equal(t, []any{"aa", "failed", "a session uses at most 32 tool servers"}, []any{first["name"], first["status"], first["error"]})

	setup := w.do("GET", "/api/sessions/"+session, w.ann, "").json()["session_setup"].(map[string]any)
	require.Len(t, setup["mcp_servers"], 32)
}

func TestToolServersInTheSetupOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	servers := func() any {
		return w.do("GET", "/api/sessions/"+session, w.ann, "").json()["session_setup"].(map[string]any)["mcp_servers"]
	}
	require.Equal(t, []any{}, servers())

	id := w.toolServer(w.ann, `{"session_id":"`+session+`","env":{"TOKEN":"s3cret-of-ann"}}`)
	want := map[string]any{"id": id, "name": "tools-1", "scope": "session", "transport": "stdio"}
	require.Equal(t, []any{want}, servers())
	require.Empty(t, w.lookers.looked, "the detail of a session connects to nothing")
	require.Equal(t, 200, w.do("PATCH", "/api/mcp-servers/"+id, w.ann, `{"enabled":false}`).status)
	require.Equal(t, []any{}, servers())
}

// A server of a preset says no more than its name, and keeps to it.
func TestToolServersOfAPreset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	made := w.do("POST", "/api/mcp-servers", w.ann, `{"session_id":"`+session+`","name":"web","preset":"browser"}`)
	require.Equal(t, 200, made.status, made.text)
	path := "/api/mcp-servers/" + made.json()["id"].(string)

	got := w.do("GET", path, w.ann, "").json()
	require.Equal(t, []any{"browser", "stdio", "", []any{}}, []any{got["preset"], got["transport"], got["command"], got["args"]})

	kept, err := w.toolServers().SessionMCPServers(t.Context(), domain.SessionID(session))
	require.NoError(t, err)
	require.Equal(t, toolserver.BrowserPreset, kept[0].Preset)

	w.do("PATCH", path, w.ann, `{"command":"sh"}`).code(422, "invalid_request")

	changed := w.do("PATCH", path, w.ann, `{"timeout_s":5,"tools":["browser_snapshot"]}`)
	require.Equal(t, 200, changed.status, changed.text)
	require.Equal(t, "browser", changed.json()["preset"])

	own := w.toolServer(w.ann, `{"session_id":"`+session+`"}`)
	require.Nil(t, w.do("GET", "/api/mcp-servers/"+own, w.ann, "").json()["preset"])
	w.do("PATCH", "/api/mcp-servers/"+own, w.ann, `{"preset":"browser"}`).code(422, "invalid_request")
}
