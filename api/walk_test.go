package api_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bad is a request that an operation refuses as invalid, and the field it names.
type bad struct {
	path string // empty: the operation's own
	body string
	at   string
}

// call is one operation as the walk makes it. In paths and bodies the names in braces
// that [world.ready] replaces stand for what ann has.
type call struct {
	method, path string // as in the document

	// scope is what a restricted key needs: a scope, any (every signed-in caller),
	// unrestricted (no key with scopes) or public (no credentials).
	scope string

	url     string
	body    string
	status  int
	public  bool
	admin   bool   // made by an administrator
	missing string // the URL of something that does not exist
	bad     []bad
	hasBody bool // takes a JSON object
	stream  bool // walked in its own test
}

const none = "00000000-0000-7000-8000-000000000000"

// Waiting for what happens in the background.
const (
	timeout = time.Minute
	tick    = 5 * time.Millisecond
)

// walk is every operation; areas with many add theirs in files of their own.
var walk = slices.Concat(
	basicWalk, memoryWalk, annotationWalk, solutionWalk, userSettingsWalk, diagnosticsWalk, administrationWalk, skillWalk, filesWalk,
	registryWalk, runsWalk, computeWalk, appsWalk, historyWalk, contextWalk, transferWalk, prodSolutionsWalk, schedulesWalk, agentsWalk,
	webhooksWalk, triggersWalk, usageWalk, dagRunsWalk, prodWorkspacesWalk, invitationsWalk, issuesWalk,
)

var basicWalk = []call{
	{method: "GET", path: "/api/version", scope: "public", url: "/api/version", status: 200, public: true},
	{method: "GET", path: "/api/health", scope: "public", url: "/api/health", status: 200, public: true},
	{method: "GET", path: "/healthz", scope: "public", url: "/healthz", status: 200, public: true},
	{method: "GET", path: "/readyz", scope: "public", url: "/readyz", status: 200, public: true},
	{method: "GET", path: "/metrics", scope: "public", url: "/metrics", status: 200, public: true},
	{method: "GET", path: "/api/openapi.json", scope: "public", url: "/api/openapi.json", status: 200, public: true},
	{method: "GET", path: "/api/docs", scope: "public", url: "/api/docs", status: 200, public: true},
	{method: "GET", path: "/api/config", scope: "any", url: "/api/config", status: 200},
	{method: "GET", path: "/api/config/models", scope: "any", url: "/api/config/models", status: 200},
	{method: "GET", path: "/api/auth/me", scope: "any", url: "/api/auth/me", status: 200},

	{
		method:  "POST",
		path:    "/api/sessions",
		scope:   "sessions:write",
		url:     "/api/sessions",
		hasBody: true,
		status:  200,
		body:    `{"intent":"x","unknown":1}`,
		bad: []bad{
			{body: `{"intent":5}`, at: "body.intent"},
			{body: `{"memory_enabled":"yes"}`, at: "body.memory_enabled"},
			{body: `{"software_factory_id":1.5}`, at: "body.software_factory_id"},
			{body: `{"software_factory_id":1e300}`, at: "body.software_factory_id"},
			{body: `{"mode":"dreaming"}`, at: "body.mode"},
			{body: `{"env":{"A":1}}`, at: "body.env.A"},
			{body: `{"env":{"A=B":"x"}}`, at: "body.env"},
			{body: `{"env":{"":"x"}}`, at: "body.env"},
			{body: `{"disable_tools":"Bash"}`, at: "body.disable_tools"},
			{body: `{"model":"nope"}`, at: "body.model"},
			{body: `{"intent":"` + strings.Repeat("x", 100_001) + `"}`, at: "body.intent"},
		},
	},
	{method: "GET", path: "/api/sessions", scope: "sessions:read", url: "/api/sessions?unknown=1", status: 200, bad: []bad{
		{path: "/api/sessions?limit=0", at: "query.limit"},
		{path: "/api/sessions?limit=-1", at: "query.limit"},
		{path: "/api/sessions?limit=x", at: "query.limit"},
		{path: "/api/sessions?offset=-1", at: "query.offset"},
		{path: "/api/sessions?offset=99999999999999999999", at: "query.offset"},
	}},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}",
		status:  200,
		missing: "/api/sessions/" + none,
	},
	{
		method:  "PATCH",
		path:    "/api/sessions/{session_id}",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}",
		hasBody: true,
		status:  200,
		body:    `{"intent":"y"}`,
		missing: "/api/sessions/" + none,
		bad:     []bad{{body: `{"intent":[]}`, at: "body.intent"}, {body: `{"mode":""}`, at: "body.mode"}},
	},
	{
		method:  "PUT",
		path:    "/api/sessions/{session_id}/env",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/env",
		hasBody: true,
		status:  200,
		body:    `{"env":{"A":"1"}}`,
		missing: "/api/sessions/" + none + "/env",
		bad: []bad{
			{body: `{}`, at: "body.env"},
			{body: `{"env":null}`, at: "body.env"},
			{body: `{"env":{"A":null}}`, at: "body.env.A"},
		},
	},
	{
		method:  "PATCH",
		path:    "/api/sessions/{session_id}/pin",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/pin",
		hasBody: true,
		status:  200,
		body:    `{"pinned":true}`,
		missing: "/api/sessions/" + none + "/pin",
		bad:     []bad{{body: `{}`, at: "body.pinned"}, {body: `{"pinned":1}`, at: "body.pinned"}},
	},
	{
		method:  "PATCH",
		path:    "/api/sessions/{session_id}/sharing",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/sharing",
		hasBody: true,
		status:  200,
		body:    `{"shared":false}`,
		missing: "/api/sessions/" + none + "/sharing",
		bad:     []bad{{body: `{}`, at: "body.shared"}, {body: `{"shared":"no"}`, at: "body.shared"}},
	},
	{
		method:  "PATCH",
		path:    "/api/sessions/{session_id}/memory",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/memory",
		hasBody: true,
		status:  200,
		body:    `{"memory_enabled":true}`,
		missing: "/api/sessions/" + none + "/memory",
		bad:     []bad{{body: `{}`, at: "body.memory_enabled"}, {body: `{"memory_enabled":null}`, at: "body.memory_enabled"}},
	},
	{
		method:  "DELETE",
		path:    "/api/sessions/{session_id}",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}",
		status:  200,
		missing: "/api/sessions/" + none,
	},

	{
		method: "GET", path: "/api/sessions/{session_id}/messages", scope: "sessions:read", url: "/api/sessions/{s}/messages", status: 200,
		missing: "/api/sessions/" + none + "/messages", bad: []bad{
			{path: "/api/sessions/{s}/messages?limit=0", at: "query.limit"},
			{path: "/api/sessions/{s}/messages?after_sequence=-2", at: "query.after_sequence"},
			{path: "/api/sessions/{s}/messages?after_sequence=a", at: "query.after_sequence"},
			{path: "/api/sessions/{s}/messages?newest=x", at: "query.newest"},
		},
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/chat",
		scope:   "chat",
		url:     "/api/sessions/{s}/chat",
		hasBody: true,
		status:  202,
		body:    `{"message":"hello"}`,
		missing: "/api/sessions/" + none + "/chat",
		bad: []bad{
			{body: `{}`, at: "body.message"},
			{body: `{"message":5}`, at: "body.message"},
			{body: `{"message":"x","mode":"odd"}`, at: "body.mode"},
			{body: `{"message":"x","session_id":"another"}`, at: "body.session_id"},
		},
	},
	{
		method: "POST", path: "/api/sessions/{session_id}/stop", scope: "chat", url: "/api/sessions/{s}/stop", hasBody: true, status: 200,
		missing: "/api/sessions/" + none + "/stop", bad: []bad{{body: `{"scope":"everything"}`, at: "body.scope"}},
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/events",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/events",
		stream:  true,
		status:  200,
		missing: "/api/sessions/" + none + "/events",
		bad:     []bad{{path: "/api/sessions/{s}/events?after_seq=x", at: "query.after_seq"}},
	},

	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/ls/{dir_path}",
		scope:   "files",
		url:     "/api/sessions/{s}/ls/",
		status:  200,
		missing: "/api/sessions/" + none + "/ls/a",
	},
	{
		method:  "PUT",
		path:    "/api/sessions/{session_id}/files/{file_path}",
		scope:   "files",
		url:     "/api/sessions/{s}/files/a/b.txt",
		hasBody: true,
		status:  200,
		body:    `{"content":"c"}`,
		missing: "/api/sessions/" + none + "/files/a",
		bad:     []bad{{body: `{}`, at: "body.content"}, {body: `{"content":1}`, at: "body.content"}},
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/files/{file_path}",
		scope:   "files",
		url:     "/api/sessions/{s}/files/a/b.txt",
		status:  200,
		missing: "/api/sessions/{s}/files/none",
	},
	{
		method:  "DELETE",
		path:    "/api/sessions/{session_id}/files/{file_path}",
		scope:   "files",
		url:     "/api/sessions/{s}/files/a",
		status:  200,
		missing: "/api/sessions/{s}/files/none",
	},

	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/background-tasks",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/background-tasks",
		status:  200,
		missing: "/api/sessions/" + none + "/background-tasks",
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/background-tasks/{task_id}",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/background-tasks/task-1?tail=7",
		status:  200,
		missing: "/api/sessions/{s}/background-tasks/none",
		bad: []bad{
			{
				path: "/api/sessions/{s}/background-tasks/task-1?tail=0",
				at:   "query.tail",
			},
			{path: "/api/sessions/{s}/background-tasks/task-1?tail=x", at: "query.tail"},
		},
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/background-tasks/{task_id}/stop",
		scope:   "chat",
		url:     "/api/sessions/{s}/background-tasks/task-1/stop",
		status:  200,
		missing: "/api/sessions/{s}/background-tasks/none/stop",
	},
	{
		method: "GET",
		path:   "/api/sessions/{session_id}/attachments/{attachment}",
		scope:  "sessions:read",
		url:    "/api/sessions/{s}/attachments/" + picture,
		status: 200,
		missing: "/api/sessions/{s}/attachments/" + strings.Repeat(
			"0",
			64,
		),
		bad: []bad{{path: "/api/sessions/{s}/attachments/x", at: "path.attachment"}},
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/tasks",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/tasks",
		status:  200,
		missing: "/api/sessions/" + none + "/tasks",
	},

	{
		method:  "POST",
		path:    "/api/user/api-keys/",
		scope:   "unrestricted",
		url:     "/api/user/api-keys/",
		hasBody: true,
		status:  201,
		body:    `{"name":"ci"}`,
		bad: []bad{
			{body: `{}`, at: "body.name"},
			{body: `{"name":""}`, at: "body.name"},
			{body: `{"name":"` + strings.Repeat("ä", 51) + `"}`, at: "body.name"},
			{body: `{"name":"x","scopes":["everything"]}`, at: "body.scopes[0]"},
			{body: `{"name":"x","expires_at":"tomorrow"}`, at: "body.expires_at"},
			{body: `{"name":"x","expires_at":"2020-01-01T00:00:00Z"}`, at: "body.expires_at"},
		},
	},
	{method: "GET", path: "/api/user/api-keys/", scope: "unrestricted", url: "/api/user/api-keys", status: 200},
	{
		method:  "GET",
		path:    "/api/user/api-keys/{id}",
		scope:   "unrestricted",
		url:     "/api/user/api-keys/{k}",
		status:  200,
		missing: "/api/user/api-keys/" + none,
	},
	{
		method:  "PATCH",
		path:    "/api/user/api-keys/{id}",
		scope:   "unrestricted",
		url:     "/api/user/api-keys/{k}",
		hasBody: true,
		status:  200,
		body:    `{"name":"` + strings.Repeat("ä", 50) + `"}`,
		missing: "/api/user/api-keys/" + none,
		bad:     []bad{{body: `{"name":""}`, at: "body.name"}, {body: `{"name":"` + strings.Repeat("x", 51) + `"}`, at: "body.name"}},
	},
	{
		method:  "POST",
		path:    "/api/mcp-servers",
		scope:   "sessions:write",
		url:     "/api/mcp-servers",
		hasBody: true,
		status:  200,
		body:    `{"solution_id":"general","name":"a-1","transport":"http","url":"https://example.org/mcp","headers":{"X-Key":"k"}}`,
		bad:     mcpBad,
	},
	{
		method: "GET",
		path:   "/api/mcp-servers",
		scope:  "sessions:read",
		url:    "/api/mcp-servers?scope=session",
		status: 200,
		bad:    []bad{{path: "/api/mcp-servers?scope=x", at: "query.scope"}},
	},
	{
		method:  "GET",
		path:    "/api/mcp-servers/{id}",
		scope:   "sessions:read",
		url:     "/api/mcp-servers/{m}",
		status:  200,
		missing: "/api/mcp-servers/" + none,
	},
	{
		method:  "GET",
		path:    "/api/mcp-servers/{id}/tools",
		scope:   "sessions:read",
		url:     "/api/mcp-servers/{m}/tools",
		status:  200,
		missing: "/api/mcp-servers/" + none + "/tools",
	},
	{
		method:  "POST",
		path:    "/api/mcp-servers/{id}/tools/accept",
		scope:   "sessions:write",
		url:     "/api/mcp-servers/{m}/tools/accept",
		hasBody: true,
		status:  200,
		body:    `{"tools":{"read":"` + proposedTool.Digest() + `"}}`,
		missing: "/api/mcp-servers/" + none + "/tools/accept",
		bad:     []bad{{body: `{"tools":{}}`, at: "body.tools"}, {body: `{"tools":{"read":5}}`, at: "body.tools.read"}},
	},
	{
		method:  "PATCH",
		path:    "/api/mcp-servers/{id}",
		scope:   "sessions:write",
		url:     "/api/mcp-servers/{m}",
		hasBody: true,
		status:  200,
		body:    `{"enabled":false}`,
		missing: "/api/mcp-servers/" + none,
		bad:     []bad{{body: `{"timeout_s":0}`, at: "body.timeout_s"}, {body: `{"transport":"http"}`, at: "body.command"}},
	},
	{
		method:  "DELETE",
		path:    "/api/mcp-servers/{id}",
		scope:   "sessions:write",
		url:     "/api/mcp-servers/{m}",
		status:  200,
		missing: "/api/mcp-servers/" + none,
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/mcp-servers",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/mcp-servers",
		status:  200,
		missing: "/api/sessions/" + none + "/mcp-servers",
	},
	{
		method:  "DELETE",
		path:    "/api/user/api-keys/{id}",
		scope:   "unrestricted",
		url:     "/api/user/api-keys/{k}",
		status:  204,
		missing: "/api/user/api-keys/" + none,
	},

	{method: "GET", path: "/api/admin/users", scope: "admin", url: "/api/admin/users", status: 200, admin: true},
	{
		method:  "POST",
		path:    "/api/admin/users",
		scope:   "admin",
		url:     "/api/admin/users",
		hasBody: true,
		status:  201,
		admin:   true,
		body:    `{"username":"eve"}`,
		bad: []bad{
			{body: `{}`, at: "body.username"},
			{body: `{"username":""}`, at: "body.username"},
			{body: `{"username":"a b"}`, at: "body.username"},
			{body: `{"username":"` + strings.Repeat("x", 129) + `"}`, at: "body.username"},
			{body: `{"username":"x","administrator":"yes"}`, at: "body.administrator"},
			{body: `{"username":"x","avatar_url":"javascript:alert(1)"}`, at: "body.avatar_url"},
			{body: `{"username":"x","avatar_url":"https://x/` + strings.Repeat("x", 2000) + `"}`, at: "body.avatar_url"},
		},
	},
	{
		method:  "DELETE",
		path:    "/api/admin/users/{user_id}",
		scope:   "admin",
		url:     "/api/admin/users/{u}",
		status:  200,
		admin:   true,
		missing: "/api/admin/users/" + none,
	},
}

func TestWalk(t *testing.T) {
	t.Parallel()

	w := newWorld(t)
	for _, c := range walk {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			at := *w
			at.t = t
			at.step(c)
		})
	}
}

// ready makes what a call is about, and puts its names into the call.
func (w *world) ready(c call) (named call, who string) {
	w.t.Helper()
	session := w.session(`{}`)
	require.Equal(w.t, 200, w.do("PUT", "/api/sessions/"+session+"/files/a/b.txt", w.ann, `{"content":"0123456789"}`).status)
	key := w.do("POST", "/api/user/api-keys/", w.ann, `{"name":"k"}`).json()["key"].(map[string]any)["id"].(string)
	user, _ := w.person("u"+key, false)
	toolServer := w.toolServer(w.ann, `{"session_id":"`+session+`"}`)
	w.proposeTool(toolServer)
	administrator, _ := w.person("a"+key, true)
	rule := w.do("POST", "/api/network-rules", w.ann, `{"domain":"example.org"}`).json()["id"].(string)
	note := w.do("POST", "/api/payloads/"+session+"/annotations", w.ann, `{"kind":"bookmark","target":{"path":"a/b.txt"}}`).json()["id"].(string)
	hook, delivery := w.webhook()
	trigger, arrived := w.trigger()
	production := w.prodSolution(w.ann)

	names := strings.NewReplacer(
		"{s}", session,
		"{k}", key,
		"{u}", user, // not ann's
		"{a}", administrator, // not ann's
		"{m}", toolServer,
		"{r}", rule, // a network rule
		"{n}", note, // an annotation on the session
		"{p}", production,
		"{dagrun}", w.dagRun(production), // it failed
		"{t}", w.scheduledTask(),
		"{g}", w.prodAgent(),
		"{i}", w.agentInstance(),
		"{hook}", hook,
		"{delivery}", delivery,
		"{trigger}", trigger,
		"{hooked}", trigger, // public
		"{arrived}", arrived, // a delivery of the trigger
	)
	if strings.Contains(c.url, "{invitation}") {
		c.url = strings.ReplaceAll(c.url, "{invitation}", w.invited())
	}

	if strings.Contains(c.url+c.body+c.missing, "{w}") {
		b := w.boardOfAnn()
		at := strings.NewReplacer("{w}", b.workspace, "{j}", b.issue, "{y}", b.worked, "{x}", b.run, "{guest}", b.guest, "{agent}", b.agent,
			"{squad}", b.squad)

		c.url, c.body, c.missing = at.Replace(c.url), at.Replace(c.body), at.Replace(c.missing)
		for i, one := range c.bad {
			c.bad[i] = bad{at.Replace(one.path), at.Replace(one.body), one.at}
		}
	}

	c.url, c.body, c.missing, c.bad = names.Replace(c.url), names.Replace(c.body), names.Replace(c.missing), slices.Clone(c.bad)
	for i, b := range c.bad {
		c.bad[i] = bad{names.Replace(b.path), names.Replace(b.body), b.at}
	}

	if c.admin {
		return c, w.root
	}

	return c, w.ann
}

// owned reports whether a call names something that belongs to one user.
func (c call) owned() bool {
	return slices.ContainsFunc(
		[]string{"{s}", "{k}", "{m}", "{r}", "{p}", "{t}", "{g}", "{i}", "{hook}", "{trigger}", "{w}"},
		func(name string) bool {
			return strings.Contains(c.url, name)
		},
	)
}

// step makes one operation in every way that the walk knows.
func (w *world) step(c call) {
	t := w.t
	owned := c.owned()
	c, who := w.ready(c)
	url := c.url

	if !c.public {
		w.do(c.method, url, "", c.body).code(401, "unauthorized")
		w.do(c.method, url, "el_wrong", c.body).code(401, "unauthorized")
		w.do(c.method, url, "", c.body, header("Authorization", "Basic eDp5")).code(401, "unauthorized")
	}

	if c.admin {
		w.do(c.method, url, w.ann, c.body).code(403, "administrator_required")
	}

	if owned {
		w.do(c.method, url, w.bob, c.body).problem(404)
	}

	if c.missing != "" {
		w.do(c.method, c.missing, who, c.body).problem(404)
	}

	if c.hasBody {
		w.do(c.method, url, who, `{"broken`).code(400, "malformed_request")
		w.do(c.method, url, who, `{} trailing`).code(400, "malformed_request")
		require.Equal(t, []string{"body"}, w.do(c.method, url, who, `[1]`).fields())
		w.do(c.method, url, who, `{}`, header("Content-Type", "text/plain")).code(415, "unsupported_media_type")
		require.NotEqual(
			t,
			415,
			w.do(c.method, url, who, `[`, header("Content-Type", "Application/JSON; Charset=utf-8")).status,
			"media types are the same in any case",
		)
		w.do(c.method, url, who, `{}`, header("Content-Encoding", "gzip")).code(415, "unsupported_media_type")
	}

	for _, b := range c.bad {
		path := b.path
		if path == "" {
			path = c.url
		}

		r := w.do(c.method, path, who, b.body)
		require.Contains(t, r.fields(), b.at, r.text)
	}

	w.do("OPTIONS", url, who, "").code(405, "method_not_allowed")

	if c.stream {
		return
	}

	r := w.do(c.method, url, who, c.body)
	require.Equal(t, c.status, r.status, r.text)

	if c.status == 204 {
		require.Empty(t, r.text)
	}

	require.NotContains(t, r.text, "$schema")
}

// TestDocumentListsEveryRoute holds the document and the walk to each other.
func TestDocumentListsEveryRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	var doc struct {
		OpenAPI string                                `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage `json:"paths"`
	}

	r := w.do("GET", "/api/openapi.json", "", "")
	require.NoError(t, json.Unmarshal([]byte(r.text), &doc))
	require.True(t, strings.HasPrefix(doc.OpenAPI, "3.1"), doc.OpenAPI)
	require.NotContains(t, r.text, "$schema")

	var documented, walked []string

	for path, item := range doc.Paths {
		for method := range item {
			documented = append(documented, strings.ToUpper(method)+" "+path)
		}
	}

	for _, c := range walk {
		walked = append(walked, c.method+" "+c.path)
	}

	require.ElementsMatch(t, append(walked, notWalked...), documented)
}

// TestDocumentPage checks that the reference works without any other host, under a
// policy that allows no other.
func TestDocumentPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.do("GET", "/api/docs", "", "")
	require.Contains(t, page.header.Get("Content-Type"), "text/html")
	require.Contains(t, page.text, `"/api/openapi.json"`)
	require.NotRegexp(t, `(?i)(src|href)="?(https?:)?//|@import|url\(`, page.text, "no request to another host")

	policy := page.header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	scripts := regexp.MustCompile(`script-src ([^;]*)`).FindStringSubmatch(policy)[1]
	require.NotContains(t, scripts, "unsafe")

	for _, script := range regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(page.text, -1) {
		sum := sha256.Sum256([]byte(script[1]))
		require.Contains(t, scripts, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}

	assets := regexp.MustCompile(`(?:src|href)="(/api/docs/[^"]+)"`).FindAllStringSubmatch(page.text, -1)
	require.Len(t, assets, 5)

	for _, asset := range assets {
		got := w.do("GET", asset[1], "", "")
		require.Equal(t, 200, got.status, asset[1])
		require.NotEmpty(t, got.text)
	}

	require.Equal(t, 404, w.do("GET", "/api/docs/nothing.js", "", "").status)
}

func TestRouting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("GET", "/nothing", w.ann, "").code(404, "route_not_found")
	w.do("GET", "/api/sessions/x/skills:uploaded", w.ann, "").code(404, "route_not_found")
	w.do("GET", "/api/sessions/x", w.ann, "", func(r *http.Request) { r.URL.Opaque = "/api/sessions/%zz" }).code(400, "malformed_request")
	w.do("GET", "/api/sessions/a%2Fb", w.ann, "").code(404, "session_not_found")
	w.do("GET", "/api/sessions/%00", w.ann, "").problem(422)
	w.do("GET", "/api/sessions?q=%00", w.ann, "").problem(422)
	w.do("GET", "/api/sessions?q=%ff", w.ann, "").problem(422)
	r := w.do("PUT", "/api/sessions", w.ann, "{}")
	r.code(405, "method_not_allowed")
	require.Contains(t, r.header.Get("Allow"), "GET")
	require.Contains(t, r.header.Get("Allow"), "POST")
	require.Equal(t, 200, w.do("HEAD", "/api/sessions", w.ann, "").status)
	w.do("BREW", "/api/sessions", w.ann, "").code(405, "method_not_allowed")

	for _, path := range []string{"/api/user/api-keys", "/api/user/api-keys/"} {
		require.Equal(t, 201, w.do(http.MethodPost, path, w.ann, `{"name":"n"}`).status)
		require.Equal(t, 200, w.do(http.MethodGet, path, w.ann, "").status)
	}
}
