package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/toolstest"
	"everloop/domain"
)

// pages is a web of one page; a nil function has none.
type pages func(ctx context.Context, url string) (tools.WebPage, error)

func (p pages) Fetch(ctx context.Context, url string, _ func(string) bool) (tools.WebPage, error) {
	return p(ctx, url)
}

func (p pages) Destination(raw string) (host string, port uint16, err error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "inside.test" {
		return "", 0, domain.Newf(domain.Forbidden, "web_refused", "%s is not on the public Internet", raw)
	}

	return u.Hostname(), 443, nil
}

type engine func(query string) (tools.WebResults, error)

func (e engine) Search(_ context.Context, query string) (tools.WebResults, error) { return e(query) }

type fakeModel func(q tools.ModelQuery) (string, error)

func (m fakeModel) Ask(_ context.Context, q tools.ModelQuery) (string, error) { return m(q) }

// callWeb does what a worker does with a call of a tool for the web.
func callWeb(t *testing.T, d tools.Deps, name string, arguments toolstest.Args) (tools.Result, error) {
	t.Helper()

	d.Workspaces = toolstest.Directory{}
	if d.Outbound == "" {
		d.Outbound, d.Policies = domain.NetworkPublic, policy(domain.NewNetworkPolicy(domain.NetworkPublic, nil))
	}

	registry, err := New(d)
	require.NoError(t, err)
	text, err := json.Marshal(arguments)
	require.NoError(t, err)

	tool, checked, refused := registry.For(t.Context(), tools.Scope{Mode: domain.ModeExecuting}).Admit(name, string(text))
	if refused != nil {
		return *refused, nil
	}

	return registry.Run(
		t.Context(), tool,
		&tools.Call{ID: "call", ChatID: "chat-1", Session: tools.SessionView{ID: "session-1", Root: t.TempDir()}, Arguments: checked},
	)
}

var anyPage = tools.WebPage{
	URL: "https://example.com/final", Status: 200, StatusText: "OK", Title: "A\n title", ContentType: "text/html",
	Text: "# Heading\n\ntext",
}

func webOf(p tools.WebPage) pages {
	return func(context.Context, string) (tools.WebPage, error) { return p, nil }
}

func TestWebTools_offered(t *testing.T) {
	t.Parallel()

	offered := func(d tools.Deps, mode domain.Mode) string {
		d.Outbound = domain.NetworkRules
		registry, err := New(d)
		require.NoError(t, err)

		var names []string

		for _, spec := range registry.For(t.Context(), tools.Scope{Mode: mode, Headless: true}).Offered() {
			if strings.HasPrefix(spec.Name, "Web") {
				names = append(names, spec.Name)
			}
		}

		return strings.Join(names, " ")
	}
	both := tools.Deps{Web: webOf(anyPage), Search: engine(nil), Outbound: domain.NetworkRules}
	require.Equal(t, "WebFetch WebSearch", offered(both, domain.ModeExecuting))
	require.Empty(t, offered(both, domain.ModePlanning))
	require.Equal(t, "WebFetch", offered(tools.Deps{Web: webOf(anyPage)}, domain.ModeExecuting))
	require.Empty(t, offered(tools.Deps{}, domain.ModeExecuting))

	registry, err := New(both)
	require.NoError(t, err)

	set := registry.For(t.Context(), tools.Scope{Mode: domain.ModeExecuting})
	for _, name := range []string{"WebFetch", "WebSearch"} {
		tool, _ := set.Lookup(name)
		require.False(t, tool.Acts, "only looks, so it is tried again")
	}

	require.Equal(t, "WebFetch: https://x.test/?key=***", set.Summary("WebFetch", `{"url": "https://x.test/?key=***"}`))
	require.NotContains(t, set.Summary("WebFetch", `{"url": "https://x.test/?api_key=verysecret"}`), "verysecret")
}

func TestWebTools_followNetworkPolicy(t *testing.T) {
	t.Parallel()

	rules := func(decision domain.PermissionDecision, patterns ...string) (all []domain.PermissionRule) {
		for _, pattern := range patterns {
			all = append(all, domain.PermissionRule{Tool: domain.NetworkTool, Pattern: pattern, Decision: decision})
		}

		return all
	}
	allow, deny := rules(domain.PermissionAllow, "new.example"), rules(domain.PermissionDeny, "new.example", "named.example")

	for name, c := range map[string]struct {
		mode    domain.NetworkMode // of the service
		narrow  domain.NetworkMode // of the session
		rules   []domain.PermissionRule
		url     string
		asks    string // domain; empty: no question
		refused string // words of the result; empty: fetched
	}{
		"service without network": {mode: domain.NetworkNone, url: namedPage, refused: "no network"},
		"session without network": {mode: domain.NetworkPublic, narrow: domain.NetworkNone, url: namedPage, refused: "no network"},
		"new domain": {
			mode: domain.NetworkRules, url: "https://new.example/", asks: "new.example", refused: "no network rule",
		},
		"allowed domain":        {mode: domain.NetworkRules, rules: allow, url: "https://new.example/"},
		"denied domain":         {mode: domain.NetworkPublic, rules: deny, url: "https://new.example/", refused: "do not allow"},
		"named address, denied": {mode: domain.NetworkRules, rules: deny, url: namedPage, refused: "do not allow"},
		"denied everything": {
			mode: domain.NetworkPublic, rules: rules(domain.PermissionDeny, ""), url: namedPage, refused: "do not allow",
		},
		"named address": {mode: domain.NetworkRules, url: namedPage},
		"named address with a suffix": {
			mode: domain.NetworkRules, url: namedPage + "?d=x", asks: "named.example", refused: "no network rule",
		},
		"public":     {mode: domain.NetworkPublic, url: "https://new.example/"},
		"not public": {mode: domain.NetworkRules, rules: allow, url: "https://inside.test/", refused: "not on the public"},
	} {
		fetched := false
		web := pages(func(context.Context, string) (tools.WebPage, error) { fetched = true; return anyPage, nil })
		session := domain.Session{Setup: domain.SessionSetup{Network: c.narrow}}
		effective := c.mode.Narrowed(c.narrow)
		registry, err := New(tools.Deps{
			Workspaces: toolstest.Directory{},
			Web:        web,
			Search:     engine(func(string) (tools.WebResults, error) { return results(namedPage), nil }),
			Outbound:   c.mode,
			Policies:   policy(domain.NewNetworkPolicy(effective, c.rules)),
		})
		require.NoError(t, err)

		set := registry.For(t.Context(), tools.Scope{Session: session, Mode: domain.ModeExecuting})
		text, _ := json.Marshal(map[string]string{"url": c.url})

		tool, arguments, withheld := set.Admit("WebFetch", string(text))
		if withheld != nil {
			require.Contains(t, withheld.Output, c.refused, name)
			_, _, withheld = set.Admit("WebSearch", `{"query": "tea"}`)
			require.Contains(t, withheld.Output, c.refused, name)

			continue
		}

		if access := tool.Access(t.Context(), "session-1", arguments); c.asks == "" {
			require.Nil(t, access, name)
		} else {
			require.Equal(t, c.asks, access.Rules[0].String(), name)
			require.Contains(t, access.About, c.url, "the person sees the whole address")
		}

		result, err := registry.Run(t.Context(), tool, &tools.Call{
			ID: "call", Session: tools.SessionView{ID: "session-1", Root: t.TempDir()}, Arguments: arguments,
		})
		require.NoError(t, err)
		require.Equal(t, c.refused == "", fetched, name)
		require.Contains(t, result.Output, c.refused, name)
	}
}

// changingPolicy is a policy that a test replaces.
type changingPolicy struct {
	policy
	now atomic.Pointer[domain.NetworkPolicy]
}

func (p *changingPolicy) NetworkPolicy(context.Context, domain.SessionID) (domain.NetworkPolicy, error) {
	return *p.now.Load(), nil
}

func TestWebFetch_endsWhenNoLongerAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policies, none, public := &changingPolicy{}, domain.NetworkPolicy{}, domain.NewNetworkPolicy(domain.NetworkPublic, nil)
		policies.now.Store(&public)

		began := time.Now()
		hanging := pages(func(ctx context.Context, _ string) (tools.WebPage, error) {
			policies.now.Store(&none)
			<-ctx.Done()

			return tools.WebPage{}, context.Cause(ctx)
		})

		result, err := callWeb(
			t, tools.Deps{Web: hanging, Outbound: domain.NetworkPublic, Policies: policies}, "WebFetch", toolstest.Args{"url": namedPage},
		)
		require.NoError(t, err)
		require.True(t, result.IsError)
		require.Contains(t, result.Output, "do not allow named.example")
		require.LessOrEqual(t, time.Since(began), 2*time.Second) // of the bubble's clock
	})
}

func TestWebFetch_namesPage(t *testing.T) {
	t.Parallel()
	result, err := callWeb(t, tools.Deps{Web: webOf(anyPage)}, "WebFetch", toolstest.Args{"url": "https://example.com"})
	require.NoError(t, err)
	require.False(t, result.IsError)
	require.Equal(t, "URL: https://example.com/final\nStatus: 200 OK\nTitle: A title\nType: text/html\n\n# Heading\n\ntext", result.Output)

	long := anyPage
	long.Text, long.Cut, long.Note = strings.Repeat("long line\n", 20_000), "Only the first 5 MB of the page were read.", ""
	result, err = callWeb(t, tools.Deps{Web: webOf(long)}, "WebFetch", toolstest.Args{"url": "https://example.com"})
	require.NoError(t, err)
	require.Contains(t, result.Output, "[Only the first 5 MB of the page were read.]")
	require.LessOrEqual(t, tools.Length(result.Output), tools.MaxResult)
	require.Contains(t, result.Output, tools.OutputDir, "the rest is kept in a file")

	empty := anyPage
	empty.Text = " "
	result, err = callWeb(t, tools.Deps{Web: webOf(empty)}, "WebFetch", toolstest.Args{"url": "https://example.com", "prompt": "what?"})
	require.NoError(t, err)
	require.Contains(t, result.Output, "(The page is empty.)")
}

func TestWebFetch_failures(t *testing.T) {
	t.Parallel()

	missing := anyPage
	missing.Status, missing.StatusText, missing.Text = 404, "Not Found", strings.Repeat("x", 10_000)
	result, err := callWeb(t, tools.Deps{Web: webOf(missing)}, "WebFetch", toolstest.Args{"url": "https://example.com", "prompt": "what?"})
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Contains(t, result.Output, "Status: 404 Not Found")
	require.Less(t, len(result.Output), 3000)

	failing := func(err error) pages {
		return func(context.Context, string) (tools.WebPage, error) { return tools.WebPage{}, err }
	}
	result, err = callWeb(
		t, tools.Deps{Web: failing(domain.Newf(domain.Forbidden, "web_refused", "x.test is not on the public Internet"))}, "WebFetch",
		toolstest.Args{"url": "http://x.test"},
	)
	require.NoError(t, err, "a refusal is the model's, not the operators'")
	require.Equal(t, tools.Result{Output: "The page was not fetched: x.test is not on the public Internet.", IsError: true}, result)

	fault := errors.New("secret detail")
	result, err = callWeb(t, tools.Deps{Web: failing(fault)}, "WebFetch", toolstest.Args{"url": "http://x.test"})
	require.ErrorIs(t, err, fault)
	require.NotContains(t, result.Output, "secret detail")

	for _, bad := range []toolstest.Args{
		{},
		{"url": ""},
		{"url": 1},
		{"url": "http://x", "method": "POST"},
		{"url": strings.Repeat("x", 9000)},
	} {
		result, err = callWeb(t, tools.Deps{Web: failing(fault)}, "WebFetch", bad)
		require.NoError(t, err)
		require.True(t, result.IsError)
	}
}

func TestWebFetch_appliesPrompt(t *testing.T) {
	t.Parallel()

	long := anyPage
	long.Text = strings.Repeat("é", 200_000)

	var asked tools.ModelQuery

	asker := fakeModel(func(q tools.ModelQuery) (string, error) { asked = q; return "It costs 3.", nil })
	result, err := callWeb(t, tools.Deps{Web: webOf(long), Asker: asker},
		"WebFetch", toolstest.Args{"url": "https://example.com", "prompt": "What does it cost?"})
	require.NoError(t, err)
	require.False(t, result.IsError)
	require.Contains(t, result.Output, "Status: 200 OK")
	require.True(t, strings.HasSuffix(result.Output, "It costs 3."))
	require.Equal(t, []string{"session-1", "chat-1"}, []string{string(asked.SessionID), string(asked.ChatID)})
	require.Contains(t, asked.Text, "What does it cost?")
	require.Contains(t, asked.Text, `<page url="https://example.com/final">`)
	require.Contains(t, asked.System, "never an instruction")
	require.Less(t, tools.Length(asked.Text), maxAsked+1000)

	for _, d := range []tools.Deps{
		{Web: webOf(anyPage)},
		{Web: webOf(anyPage), Asker: fakeModel(func(tools.ModelQuery) (string, error) { return "", errors.New("secret detail") })},
		{
			Web:   webOf(anyPage),
			Asker: fakeModel(func(tools.ModelQuery) (string, error) { return "", tools.Refuse("the text is too long for the model") }),
		},
	} {
		result, err = callWeb(t, d, "WebFetch", toolstest.Args{"url": "https://example.com", "prompt": "what?"})
		require.NoError(t, err)
		require.False(t, result.IsError)
		require.Contains(t, result.Output, "[The prompt could not be applied: ")
		require.Contains(t, result.Output, "# Heading", "the page is better than nothing")
		require.NotContains(t, result.Output, "secret detail")
	}
}

func results(addresses ...string) tools.WebResults {
	var out tools.WebResults
	for _, a := range addresses {
		out.Items = append(out.Items, tools.WebResult{Title: "Title of\n" + a, URL: a, Snippet: "Words   of it"})
	}

	return out
}

func TestWebSearch_listsResults(t *testing.T) {
	t.Parallel()

	var asked string

	found := results(
		"https://go.dev/doc", "https://EXAMPLE.com./x", "javascript:alert(1)", "https://sub.example.com/", "https://notexample.com/", "::",
	)
	search := func(a toolstest.Args) string {
		result, err := callWeb(
			t,
			tools.Deps{Search: engine(func(q string) (tools.WebResults, error) { asked = q; return found, nil })},
			"WebSearch",
			a,
		)
		require.NoError(t, err)
		require.False(t, result.IsError, result.Output)

		return result.Output
	}
	out := search(toolstest.Args{"query": "two\nwords"})

	require.Equal(t, "two words", asked)
	require.Contains(t, out, "1. Title of https://go.dev/doc\n   https://go.dev/doc\n   Words of it\n2. ")
	require.NotContains(t, out, "javascript:")
	require.NotContains(t, out, "DEMO")

	out = search(toolstest.Args{"query": "ab", "allowed_domains": []string{"Example.com", "https://go.dev/"}})

	require.Equal(t, "ab site:example.com OR site:go.dev", asked)
	require.NotContains(t, out, "notexample")
	require.Contains(t, out, "3. ")
	out = search(toolstest.Args{"query": "ab", "blocked_domains": []string{"*.example.com"}})

	require.Equal(t, "ab -site:example.com", asked)
	require.Contains(t, out, "notexample.com")
	require.NotContains(t, out, "//sub.example.com")

	out = search(toolstest.Args{"query": "ab", "allowed_domains": []string{"example.com"}, "blocked_domains": []string{"sub.example.com"}})

	require.Equal(t, "ab site:example.com -site:sub.example.com", asked)
	require.Contains(t, out, "//EXAMPLE.com")
	require.NotContains(t, out, "//sub.example.com")
	require.NotContains(t, out, "notexample.com")

	require.Contains(
		t,
		search(toolstest.Args{"query": "ab", "allowed_domains": []string{"other.test"}}),
		"left out because of their domains",
	)

	found.Demo = true

	require.Contains(t, search(toolstest.Args{"query": "ab"}), "[DEMO: these results are made up")

	found = tools.WebResults{}

	require.Contains(t, search(toolstest.Args{"query": "ab"}), "Nothing was found")

	found = results(strings.Split(strings.Repeat("https://x.test/ ", 50), " ")...)

	require.NotContains(t, search(toolstest.Args{"query": "ab"}), "11. ")
}

func TestWebSearch_refusals(t *testing.T) {
	t.Parallel()

	never := engine(func(string) (tools.WebResults, error) { panic("asked") })
	for _, bad := range []toolstest.Args{
		{},
		{"query": "x"},
		{"query": "   "},
		{"query": "ab", "allowed_domains": "x"},
		{"query": "ab", "allowed_domains": []string{"a b"}},
		{"query": "ab", "blocked_domains": []string{`"x" OR site:y`}},
		{"query": "ab", "max": 3},
	} {
		result, err := callWeb(t, tools.Deps{Search: never}, "WebSearch", bad)
		require.NoError(t, err)
		require.True(t, result.IsError, "%v", bad)
		require.NotContains(t, result.Output, "fault of the service")
	}

	result, err := callWeb(t, tools.Deps{Search: engine(func(string) (tools.WebResults, error) {
		return tools.WebResults{}, tools.Refuse("the search engine takes no more queries")
	})}, "WebSearch", toolstest.Args{"query": "ab"})
	require.NoError(t, err)
	require.Equal(t, "The search failed: the search engine takes no more queries.", result.Output)
	require.True(t, result.IsError)
}
