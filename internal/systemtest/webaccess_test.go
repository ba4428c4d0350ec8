package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/domain/permission"
	"everloop/infra/web"
	"everloop/service/accounts"
)

// webPolicies are tools.WebPolicies of a stack with SANDBOX_NETWORK at mode.
type webPolicies struct {
	*stack
	mode domain.NetworkMode
}

func (p webPolicies) NetworkPolicy(ctx context.Context, id domain.SessionID) (domain.NetworkPolicy, error) {
	session, planning, rules, err := p.journal.NetworkSession(ctx, id)
	if err != nil || planning {
		return domain.NetworkPolicy{}, err
	}

	mode := p.mode.Narrowed(session.Setup.Network)

	return domain.NewNetworkPolicy(mode, slices.Concat(session.Setup.Permissions, rules)), nil
}

func (p webPolicies) AddressNamed(ctx context.Context, id domain.SessionID, address string) (bool, error) {
	return p.journal.AddressNamed(ctx, id, address)
}

func (p webPolicies) ToolDecision(
	ctx context.Context, id domain.SessionID, tool string, arguments json.RawMessage,
) (domain.PermissionDecision, error) {
	session, _, _, err := p.journal.NetworkSession(ctx, id)
	return permission.Decide(session.Setup.Permissions, permission.Call{Tool: tool, Arguments: arguments}), err
}

// found is a search engine that finds one page.
type found string

func (f found) Search(context.Context, string) (tools.WebResults, error) {
	return tools.WebResults{Items: []tools.WebResult{{Title: "Found", URL: string(f), Snippet: "words"}}}, nil
}

// webStack returns a stack with the tools for the web and a site that counts its requests. The
// search finds the page /found of it.
func webStack(t *testing.T) (s *stack, site string, hits *atomic.Int64) {
	t.Helper()

	s, hits = newStack(t), &atomic.Int64{}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)

		if r.URL.Path == "/public/away" {
			http.Redirect(w, r, "/private/page", http.StatusFound)
			return
		}

		fmt.Fprintf(w, "page %s", r.URL.Path)
	}))
	t.Cleanup(server.Close)

	client, err := web.New(web.Config{Allow: []string{strings.TrimPrefix(server.URL, "http://")}})
	require.NoError(t, err)

	registry, err := builtin.New(tools.Deps{
		Workspaces: noFiles{}, Sandbox: plainShell{}, Web: client, Search: found(server.URL + "/found"),
		Outbound: domain.NetworkRules, Policies: webPolicies{s, domain.NetworkRules},
	})
	require.NoError(t, err)
	s.useTools(registry)

	return s, server.URL, hits
}

func fetchOf(url string) obj { return obj{"name": "WebFetch", "arguments": obj{"url": url}} }

// unnamed returns a message whose steps contain the addresses of a site in a spelling that
// does not name them.
func unnamed(site string, steps ...obj) string {
	return strings.ReplaceAll(script(obj{"steps": steps}), site, strings.Replace(site, "http://", `http:\u002f\u002f`, 1))
}

func TestWebFetch_asksForNewDomain(t *testing.T) {
	t.Parallel()
	s, site, hits := webStack(t)
	session := s.session()

	ack := s.send(
		session,
		unnamed(site, obj{"calls": []obj{fetchOf(site + "/?d=secret")}}, obj{"calls": []obj{fetchOf(site + "/next")}}, obj{"text": "done"}),
	)
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	require.Zero(t, hits.Load())

	open := s.asked(session, 1)
	require.Contains(t, string(open[0].Questions), site+"/?d=secret", "the person sees the whole address")
	s.permit(session, open[0], 0, "")
	s.awaitEnds(session, ack.ChatID, 2)

	turns := s.messages(session)
	require.Contains(t, turns[1].ToolCalls[0].Result, "page /")
	require.Len(t, turns[2].ToolCalls, 1, "the domain is allowed in this session")
	require.Contains(t, turns[2].ToolCalls[0].Result, "page /next")
	require.EqualValues(t, 2, hits.Load())
	s.checkEvents(session)
}

// allowAlways lets a caller answer the question for a new domain with Always allow.
func allowAlways(s *stack, site string, caller domain.Caller) domain.SessionID {
	session := s.session()
	ack := s.send(session, unnamed(site, obj{"calls": []obj{fetchOf(site + "/always")}}, obj{"text": "done"}))
	s.awaitEnd(session, ack.ChatID)

	resolved, err := s.chats.Answer(s.t.Context(), caller, session, domain.Answer{
		ToolCallID: s.asked(session, 1)[0].ToolCallID, Selections: map[string][]int{"0": {1}},
	})
	require.NoError(s.t, err)
	require.True(s.t, resolved.Resolved)
	s.awaitEnds(session, ack.ChatID, 2)

	return session
}

func TestAnswer_alwaysByRestrictedKeyIsForSession(t *testing.T) {
	t.Parallel()
	s, site, hits := webStack(t)
	key := s.caller
	key.Scopes = []string{"chat", "sessions:read"}

	session := allowAlways(s, site, key)

	require.EqualValues(t, 1, hits.Load())

	rules, err := accounts.New(s.db.DB).NetworkRules(t.Context(), s.caller.User.ID)
	require.NoError(t, err)
	require.Empty(t, rules)

	made, _, _, err := s.journal.NetworkSession(t.Context(), session)
	require.NoError(t, err)
	require.Len(t, made.Setup.Permissions, 1)
	require.Contains(t, s.messages(session)[1].ToolCalls[1].Result, domain.PermissionAllowSession, "the record says what was given")
}

func TestAnswer_alwaysIsAudited(t *testing.T) {
	t.Parallel()
	s, site, _ := webStack(t)
	allowAlways(s, site, s.caller)

	rules, err := accounts.New(s.db.DB).NetworkRules(t.Context(), s.caller.User.ID)
	require.NoError(t, err)
	require.Len(t, rules, 1)
	require.Equal(t, domain.PermissionAllow, rules[0].Decision)

	var target, host string
	require.NoError(t, s.journal.Pool.QueryRow(t.Context(), `
		SELECT target, details ->> 'domain' FROM audit WHERE action = 'network_rule.set' AND actor_id = $1`, s.caller.User.ID).Scan(&target, &host))
	require.Equal(t, []string{rules[0].ID, rules[0].Domain}, []string{target, host})
}

func TestAnswer_alwaysKeepsDeny(t *testing.T) {
	t.Parallel()
	s, site, hits := webStack(t)
	session := s.session()
	ack := s.send(session, unnamed(site, obj{"calls": []obj{fetchOf(site + "/x")}}, obj{"text": "done"}))
	s.awaitEnd(session, ack.ChatID)

	rule, err := domain.ParseNetworkRule(strings.TrimPrefix(site, "http://"))
	require.NoError(t, err)
	_, err = accounts.New(s.db.DB).SetNetworkRule(t.Context(), s.caller.User.ID, rule, domain.PermissionDeny)
	require.NoError(t, err)

	s.permit(session, s.asked(session, 1)[0], 1, "")
	s.awaitEnds(session, ack.ChatID, 2)

	rules, err := accounts.New(s.db.DB).NetworkRules(t.Context(), s.caller.User.ID)
	require.NoError(t, err)
	require.Len(t, rules, 1)
	require.Equal(t, domain.PermissionDeny, rules[0].Decision)
	require.Contains(t, s.messages(session)[1].ToolCalls[0].Result, "do not allow")
	require.Zero(t, hits.Load())
}

func TestWebFetch_refusesWithoutPerson(t *testing.T) {
	t.Parallel()
	s, site, hits := webStack(t)
	session := s.setUp(domain.SessionSetup{SkipConfirmations: true})

	ack, err := s.chats.Send(t.Context(), s.caller, domain.Send{
		SessionID: session, Headless: true, Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerAPI,
		Message: []domain.ContentPart{{Type: "text", Text: unnamed(site, obj{"calls": []obj{fetchOf(site + "/x")}}, obj{"text": "done"})}},
	})
	require.NoError(t, err)
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])

	call := s.messages(session)[1].ToolCalls[0]
	require.Equal(t, domain.CallError, call.Status)
	require.Contains(t, call.Result, "no user is there to allow it")
	require.Zero(t, hits.Load())
}

func TestWebFetch_fetchesNamedAddresses(t *testing.T) {
	t.Parallel()
	s, site, hits := webStack(t)
	session := s.session()

	read := func(message string) domain.ToolCall {
		ack := s.send(session, message)
		s.awaitEnd(session, ack.ChatID)

		turns := s.messages(session)
		for _, turn := range slices.Backward(turns) {
			if len(turn.ToolCalls) > 0 {
				return turn.ToolCalls[len(turn.ToolCalls)-1]
			}
		}

		return domain.ToolCall{}
	}

	one := unnamed(site, obj{"calls": []obj{fetchOf(site + "/a")}}, obj{"text": "done"})
	require.Contains(t, read("Read "+site+"/a, please. "+one).Result, "page /a", "the user wrote it")

	search := obj{"name": "WebSearch", "arguments": obj{"query": "anything"}}
	require.Contains(
		t,
		read(unnamed(site, obj{"calls": []obj{search}}, obj{"calls": []obj{fetchOf(site + "/found")}}, obj{"text": "done"})).Result,
		"page /found",
		"a search returned it",
	)

	before := hits.Load()

	for _, changed := range []string{"/a?d=secret", "/a/secret", "/", "/found?x", "/ab"} {
		asked := read(unnamed(site, obj{"calls": []obj{fetchOf(site + changed)}}, obj{"text": "done"}))
		require.Equal(t, domain.CallAwaitingAnswer, asked.Status, changed)
	}

	sub := agent("reader", obj{"calls": []obj{fetchOf(site + "/of-model")}}, obj{"text": "read"})
	message := unnamed(site, obj{"calls": []obj{sub}}, obj{"text": "done"})
	ack := s.send(session, message)
	s.awaitEnd(session, ack.ChatID)
	s.asked(session, 1)
	require.Equal(t, before, hits.Load(), "neither a changed address nor one in a sub-agent's prompt was fetched")
}

func TestWebFetch_judgesRedirectsByPermissionRules(t *testing.T) {
	t.Parallel()
	s, site, hits := webStack(t)
	session := s.setUp(domain.SessionSetup{Permissions: []domain.PermissionRule{
		{Tool: "WebFetch", Pattern: site + "/public/*", Decision: domain.PermissionAllow},
		{Tool: "WebFetch", Decision: domain.PermissionDeny},
	}})

	ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{fetchOf(site + "/public/away")}}, {"text": "done"}}}))
	s.awaitEnd(session, ack.ChatID)

	call := s.messages(session)[1].ToolCalls[0]
	require.Equal(t, domain.CallError, call.Status)
	require.Contains(t, call.Result, site+"/private/page")
	require.EqualValues(t, 1, hits.Load(), "the page that no rule allows was not requested")
}

func TestWebTools_withheldWithoutNetwork(t *testing.T) {
	t.Parallel()
	s, site, hits := webStack(t)
	session := s.setUp(domain.SessionSetup{Network: domain.NetworkNone})

	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{fetchOf(site + "/a"), {"name": "WebSearch", "arguments": obj{"query": "tea"}}}}, {"text": "done"},
	}}))
	s.awaitEnd(session, ack.ChatID)

	for _, call := range s.messages(session)[1].ToolCalls {
		require.Equal(t, domain.CallError, call.Status)
		require.Contains(t, call.Result, "this session has no network")
	}

	require.Zero(t, hits.Load())
}
