package systemtest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/proxy"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/infra/egress"
	"everloop/infra/mcp"
	"everloop/infra/netguard"
	"everloop/infra/secrets"
	"everloop/infra/web"
	"everloop/service/chat"
	"everloop/service/toolservers"
)

// outcome is what becomes of a way out.
type outcome string

const (
	reached outcome = "reached"
	asked   outcome = "asked"
	refused outcome = "refused"
)

// policyCases are the policies of the matrix, by name, with the rules about one host.
var policyCases = map[string]func(host string) domain.SessionSetup{
	"public":  func(string) domain.SessionSetup { return domain.SessionSetup{} },
	"allowed": func(host string) domain.SessionSetup { return underRules(host, domain.PermissionAllow) },
	"denied":  func(host string) domain.SessionSetup { return underRules(host, domain.PermissionDeny) },
	"no rule": func(string) domain.SessionSetup { return domain.SessionSetup{Network: domain.NetworkRules} },
	"none":    func(string) domain.SessionSetup { return domain.SessionSetup{Network: domain.NetworkNone} },
}

func underRules(host string, decision domain.PermissionDecision) domain.SessionSetup {
	return domain.SessionSetup{Network: domain.NetworkRules, Permissions: []domain.PermissionRule{
		{Tool: domain.NetworkTool, Pattern: host, Decision: decision},
	}}
}

// waysMatrix has the outcome of each way under each policy when the owner or a key with the
// scope chat sends the message. Where it is asked, an unattended message is refused. Other
// callers cannot send, under any policy.
var waysMatrix = map[string]map[string]outcome{
	"command, HTTP":         {"public": reached, "allowed": reached, "denied": refused, "no rule": refused, "none": refused},
	"command, CONNECT":      {"public": reached, "allowed": reached, "denied": refused, "no rule": refused, "none": refused},
	"command, SOCKS5":       {"public": reached, "allowed": reached, "denied": refused, "no rule": refused, "none": refused},
	"WebFetch":              {"public": reached, "allowed": reached, "denied": refused, "no rule": asked, "none": refused},
	"WebFetch, redirect":    {"public": refused, "allowed": refused, "denied": refused, "no rule": refused, "none": refused},
	"WebSearch":             {"public": reached, "allowed": reached, "denied": reached, "no rule": reached, "none": refused},
	"tool server over HTTP": {"public": reached, "allowed": reached, "denied": refused, "no rule": reached, "none": refused},
	"picture of a message":  {"public": reached, "allowed": reached, "denied": refused, "no rule": reached, "none": refused},
}

// outStack is a stack with every way out of the matrix to one site, whose requests are
// counted.
type outStack struct {
	*stack
	policies webPolicies
	plain    *httptest.Server // 127.0.0.1
	secure   *httptest.Server
	hits     atomic.Int64
	proxy    *egress.Proxy
	servers  *toolservers.Store
	viewer   domain.Caller
	key      domain.Caller // with the scope chat alone
}

// SessionPolicy implements mcp.Policies.
func (o *outStack) SessionPolicy(ctx context.Context, id domain.SessionID) (domain.NetworkPolicy, error) {
	return o.policies.NetworkPolicy(ctx, id)
}

// Picture implements chat.Pictures, as the wiring of the service does.
func (o *outStack) Picture(ctx context.Context, id domain.SessionID, address string) (string, error) {
	policy, err := o.SessionPolicy(ctx, id)
	if err != nil {
		return "", err
	}

	client, err := web.New(web.Config{Allow: []string{o.host()}})
	if err != nil {
		return "", err
	}

	return client.Picture(ctx, address, func(host string, port uint16) error {
		if policy.Decide(host, port) == domain.PermissionDeny {
			return domain.Newf(domain.Forbidden, "web_refused", "the network policy of this session does not allow %s", host)
		}

		return nil
	})
}

// countedSearch counts the searches as requests.
type countedSearch struct{ o *outStack }

func (c countedSearch) Search(context.Context, string) (tools.WebResults, error) {
	c.o.hits.Add(1)
	return tools.WebResults{Items: []tools.WebResult{{Title: "Found", URL: "https://example.org/", Snippet: "words"}}}, nil
}

func (o *outStack) host() string { return strings.TrimPrefix(o.plain.URL, "http://") }

func newOutStack(t *testing.T) *outStack {
	t.Helper()

	o := &outStack{stack: newStack(t)}
	o.policies = webPolicies{o.stack, domain.NetworkPublic}

	server := sdk.NewServer(&sdk.Implementation{Name: "site", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "act"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
	})
	toolServer := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)

	site := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/away" {
			o.hits.Add(1)
		}

		switch r.URL.Path {
		case "/mcp":
			toolServer.ServeHTTP(rw, r)
		case "/away":
			http.Redirect(rw, r, strings.Replace(o.plain.URL, "127.0.0.1", "localhost", 1)+"/page", http.StatusFound)
		case "/picture":
			_, _ = io.WriteString(rw, shot)
		default:
			_, _ = io.WriteString(rw, "page")
		}
	})
	o.plain, o.secure = httptest.NewServer(site), httptest.NewTLSServer(site)

	for _, s := range []*httptest.Server{o.plain, o.secure} {
		t.Cleanup(s.Close)
		t.Cleanup(s.CloseClientConnections)
	}

	_, port, err := net.SplitHostPort(o.host())
	require.NoError(t, err)

	allow := []string{o.host(), "localhost:" + port, strings.TrimPrefix(o.secure.URL, "https://")}
	client, err := web.New(web.Config{Allow: allow})
	require.NoError(t, err)
	guard, err := netguard.New(allow, nil)
	require.NoError(t, err)

	o.proxy = egress.New(egress.Config{Guard: guard})
	registry, err := builtin.New(tools.Deps{
		Workspaces: noFiles{}, Sandbox: plainShell{}, Web: client, Search: countedSearch{o}, Outbound: domain.NetworkPublic,
		Policies: o.policies,
	})
	require.NoError(t, err)

	box, err := secrets.NewBox("a key of the tests, long enough to be one")
	require.NoError(t, err)

	o.servers = toolservers.New(o.db.DB, box)
	manager := mcp.NewManager(mcp.Config{
		Store: o.servers, HTTP: mcp.NewGuard(guard), Policies: o, Profile: o.Profile, Version: "test", Logger: o.logger,
	})
	t.Cleanup(manager.Close)
	registry.Provide(manager)
	o.useTools(registry)
	o.configure(func(c *chat.Config) { c.Pictures = o })

	o.viewer = domain.Caller{User: domain.User{ID: domain.NewID(), Username: "viewer"}}
	o.exec(`INSERT INTO users (id, username) VALUES ($1, 'viewer')`, o.viewer.User.ID)
	o.key = o.caller
	o.key.Scopes = []string{"chat"}

	return o
}

// sendAs sends a message in a caller's name, and returns the outcome for the site.
func (o *outStack) sendAs(caller domain.Caller, headless bool, session domain.SessionID, message ...domain.ContentPart) outcome {
	before := o.hits.Load()

	ack, err := o.chats.Send(o.t.Context(), caller, domain.Send{
		SessionID: session, Message: message, Headless: headless, Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
	})
	if err != nil {
		require.Equal(o.t, before, o.hits.Load(), "a refused message reaches nothing")
		return refused
	}

	end := o.awaitEnd(session, ack.ChatID)
	reachedSite := o.hits.Load() > before

	switch {
	case end["finish_reason"] == "awaiting_answer":
		require.False(o.t, reachedSite, "nothing is reached before the answer")
		return asked
	case reachedSite:
		return reached
	default:
		return refused
	}
}

// byTool returns the driver of a way that a call of the model takes.
func byTool(name string, arguments func(o *outStack) obj) wayDriver {
	return func(o *outStack, caller domain.Caller, headless bool, session domain.SessionID) outcome {
		message := unnamed(o.plain.URL, obj{"calls": []obj{{"name": name, "arguments": arguments(o)}}}, obj{"text": "done"})
		return o.sendAs(caller, headless, session, domain.ContentPart{Type: "text", Text: message})
	}
}

// byProxy returns the driver of a way that a running command takes, for all who can
// send a message.
func byProxy(request func(o *outStack, through string) error) wayDriver {
	return func(o *outStack, caller domain.Caller, _ bool, session domain.SessionID) outcome {
		if caller.User.ID == o.viewer.User.ID {
			return refused // sends no message, so that no command runs
		}

		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(o.t, err)

		command := o.proxy.Open(func(ctx context.Context) (domain.NetworkPolicy, error) { return o.SessionPolicy(ctx, session) })
		command.Serve(listener)

		defer command.Close()

		before := o.hits.Load()
		err = request(o, listener.Addr().String())

		require.Equal(o.t, err == nil, o.hits.Load() > before, "%v", err)

		if err != nil {
			return refused
		}

		return reached
	}
}

// get requests a page by a transport; another status than 200 is an error.
func get(transport *http.Transport, page string) error {
	defer transport.CloseIdleConnections()

	answer, err := (&http.Client{Transport: transport}).Get(page)
	if err != nil {
		return err
	}
	defer answer.Body.Close()

	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}

	return nil
}

// wayDriver takes a way out in a session.
type wayDriver func(o *outStack, caller domain.Caller, headless bool, session domain.SessionID) outcome

// target is the host that the rules of a driven policy are about.
var targets = map[string]func(o *outStack) string{
	"command, CONNECT":   func(o *outStack) string { return strings.TrimPrefix(o.secure.URL, "https://") },
	"WebFetch, redirect": func(o *outStack) string { return strings.Replace(o.host(), "127.0.0.1", "localhost", 1) },
}

var wayDrivers = map[string]wayDriver{
	"command, HTTP": byProxy(func(o *outStack, through string) error {
		return get(&http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: through})}, o.plain.URL)
	}),
	"command, CONNECT": byProxy(func(o *outStack, through string) error {
		return get(&http.Transport{
			Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: through}), TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}, o.secure.URL)
	}),
	"command, SOCKS5": byProxy(func(o *outStack, through string) error {
		dialer, err := proxy.SOCKS5("tcp", through, nil, proxy.Direct)
		require.NoError(o.t, err)

		return get(&http.Transport{Dial: dialer.Dial}, o.plain.URL) //nolint:staticcheck // the dialer takes no context
	}),
	"WebFetch": byTool("WebFetch", func(o *outStack) obj { return obj{"url": o.plain.URL + "/page"} }),
	"WebFetch, redirect": func(o *outStack, caller domain.Caller, headless bool, session domain.SessionID) outcome {
		message := script(obj{"steps": []obj{{"calls": []obj{fetchOf(o.plain.URL + "/away")}}, {"text": "done"}}}) // the user names it
		return o.sendAs(caller, headless, session, domain.ContentPart{Type: "text", Text: message})
	},
	"WebSearch":             byTool("WebSearch", func(*outStack) obj { return obj{"query": "tea"} }),
	"tool server over HTTP": byTool("mcp__site__act", func(*outStack) obj { return obj{} }),
	"picture of a message": func(o *outStack, caller domain.Caller, headless bool, session domain.SessionID) outcome {
		return o.sendAs(caller, headless, session, domain.ContentPart{Type: "text", Text: script(obj{"steps": []obj{{"text": "done"}}})},
			domain.ContentPart{Type: "image_url", ImageURL: &domain.ImageURL{URL: o.plain.URL + "/picture"}})
	},
}

// TestWaysOut_followPolicy drives every way out of the list under every policy, for everyone
// who may be there to answer.
func TestWaysOut_followPolicy(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../arrows/testdata/waysout.json")
	require.NoError(t, err)

	var list struct {
		Ways map[string]struct{ Matrix bool } `json:"ways"`
	}
	require.NoError(t, json.Unmarshal(text, &list))

	for name, way := range list.Ways {
		require.Equal(t, way.Matrix, waysMatrix[name] != nil, "%s: the list and the matrix", name)
		require.Equal(t, way.Matrix, wayDrivers[name] != nil, "%s: the list and the drivers", name)
	}

	o := newOutStack(t)

	for way, cells := range waysMatrix {
		require.Len(t, cells, len(policyCases), way)

		host := o.host()
		if target := targets[way]; target != nil {
			host = target(o)
		}

		for policy, want := range cells {
			cell := func(caller domain.Caller, headless bool) (domain.SessionID, outcome) {
				session := o.setUp(policyCases[policy](host))
				if way == "tool server over HTTP" {
					_, err := o.servers.CreateMCPServer(t.Context(), toolserver.Record{
						Scope: toolserver.OfSession, SessionID: &session, OwnerID: o.caller.User.ID,
						MCPServer: domain.MCPServer{
							Name: "site", Transport: toolserver.HTTP, URL: o.plain.URL + "/mcp", Enabled: true, TimeoutS: 60,
						},
					})
					require.NoError(t, err)
				}

				return session, wayDrivers[way](o, caller, headless, session)
			}

			session, got := cell(o.caller, false)
			require.Equal(t, want, got, "%s, %s, the owner", way, policy)

			if want == asked {
				o.checkAnswers(session)
			}

			_, got = cell(o.key, false)
			require.Equal(t, want, got, "%s, %s, a key with chat alone", way, policy)

			_, got = cell(o.viewer, false)
			require.Equal(t, refused, got, "%s, %s, a viewer", way, policy)

			if want == asked {
				want = refused
			}

			_, got = cell(o.caller, true)
			require.Equal(t, want, got, "%s, %s, unattended", way, policy)
		}
	}
}

// checkAnswers holds that a viewer cannot answer the question of a session, and that the
// answer of its owner lets the call run.
func (o *outStack) checkAnswers(session domain.SessionID) {
	question := o.asked(session, 1)[0]
	before := o.hits.Load()

	_, err := o.chats.Answer(o.t.Context(), o.viewer, session, domain.Answer{
		ToolCallID: question.ToolCallID, Selections: map[string][]int{"0": {0}},
	})
	require.Error(o.t, err)
	o.asked(session, 1)
	require.Equal(o.t, before, o.hits.Load())

	o.permit(session, question, 0, "")
	require.Eventually(o.t, func() bool { return o.hits.Load() > before }, patience, 10*time.Millisecond)
}
