package langchain_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/companions/mock"
	"everloop/domain"
	"everloop/infra/langchain"
	"everloop/infra/web"
)

func guarded(t *testing.T, allow ...string) *http.Client {
	t.Helper()

	client, err := web.New(web.Config{Allow: allow, Timeout: time.Minute})
	require.NoError(t, err)

	return client.HTTP()
}

// offer is what a loop can call.
type offer struct {
	*tools.Toolset
	registry *tools.Registry
}

// registry holds adapted tools as the service does.
func registry(t *testing.T, list ...tools.Tool) offer {
	t.Helper()

	r, err := builtin.New(tools.Deps{})
	require.NoError(t, err)

	for _, tool := range list {
		require.NoError(t, r.Add(tool))
	}

	return offer{r.For(t.Context(), tools.Scope{Mode: domain.ModeExecuting}), r}
}

func call(t *testing.T, set offer, name, input string) tools.Result {
	t.Helper()
	result, err := try(t.Context(), set, name, input)
	require.NoError(t, err)

	return result
}

func try(ctx context.Context, set offer, name, input string) (tools.Result, error) {
	tool, arguments, refused := set.Admit(name, fmt.Sprintf(`{"input": %q}`, input))
	if refused != nil {
		return *refused, nil
	}

	return set.registry.Run(ctx, tool, &tools.Call{Arguments: arguments})
}

func offered(t *testing.T, cfg langchain.Config) offer {
	t.Helper()

	list, err := langchain.Tools(cfg)
	require.NoError(t, err)

	return registry(t, list...)
}

func TestCalculator(t *testing.T) {
	t.Parallel()

	set := offered(t, langchain.Config{Names: []string{"calculator", " Calculator ", ""}, HTTP: guarded(t)})
	for input, want := range map[string]string{
		"1 + 2 * 3": "7", "(3.5 + 4) * 2": "15.0", "pow(2, 10)": "1024.0", "round(sqrt(2) * 1000)": "1414.0", "-7 // 2": "-4", "7 % 4": "3",
		"12345678901234567890 * 98765432109876543210": "1219326311370217952237463801111263526900", "2 < 3": "True",
		"pi": "3.141592653589793",
	} {
		result := call(t, set, "Calculator", input)
		require.False(t, result.IsError, "%s: %s", input, result.Output)
		require.Equal(t, want, result.Output, input)
	}

	result := call(t, set, "Calculator", "1 / 0")
	require.True(t, result.IsError)
	require.Contains(t, result.Output, "zero")
}

// What the framework would evaluate without end, or into all memory.
func TestCalculator_rejectsAllButArithmetic(t *testing.T) {
	t.Parallel()

	set := offered(t, langchain.Config{Names: []string{"calculator"}, HTTP: guarded(t)})
	for _, input := range []string{
		"[x for x in range(1000000000) for y in range(1000000000)]", `"a" * 1000000000`, "[0] * 1000000000", "range(10)", "(lambda: 1)()",
		"{1: 2}",
		"1 << 511", "sqrt.x", "sqrt[0]", "1 if 2 else 3", "open('/etc/passwd')", "import os", "2 ** 10", "print(1)", "1 +", "", "  ",
		"x = 1", "'%s' % 1",
		"sqrt(x=1)", "not 1", "~1", strings.Repeat("(", 5000), strings.Repeat("9*", 600) + "9", "fail('x')", "pow(*[1,2])", "\x00",
	} {
		result := call(t, set, "Calculator", input)
		require.True(t, result.IsError, "%s gave %s", input, result.Output)
		require.NotContains(t, result.Output, "took longer", input)
	}
	// At the bound of its length it still is quick.
	require.False(t, call(t, set, "Calculator", strings.Repeat("9*", 499)+"9").IsError)
	require.False(t, call(t, set, "Calculator", strings.Repeat("(", 450)+"1"+strings.Repeat(")", 450)).IsError)
}

func TestWikipedia_otherMediaWiki(t *testing.T) {
	t.Parallel()

	server := httptest.NewServer(mock.New(mock.Config{}).Handler())
	t.Cleanup(server.Close)
	set := offered(t, langchain.Config{
		Names: []string{"wikipedia=" + server.URL + "/w/api.php"}, HTTP: guarded(t, server.Listener.Addr().String()+"/w/api.php"),
	})
	result := call(t, set, "Wikipedia", "green tea")
	require.False(t, result.IsError, result.Output)
	require.Contains(t, result.Output, "Warm the pot.")
}

func TestTools_requestsUseGuard(t *testing.T) {
	t.Parallel()

	var hits atomic.Int64

	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(server.Close)
	set := offered(t, langchain.Config{Names: []string{"wikipedia=" + server.URL, "calculator"}, HTTP: guarded(t)})
	result := call(t, set, "Wikipedia", "x")
	require.True(t, result.IsError)
	require.Contains(t, result.Output, "not on the public Internet")
	require.Zero(t, hits.Load())
}

func TestTools_rejectsUnknownNamesAndBadAddresses(t *testing.T) {
	t.Parallel()
	_, err := langchain.Tools(langchain.Config{Names: []string{"calculator", "scraper"}, HTTP: guarded(t)})
	require.ErrorContains(t, err, `no tool "scraper"; available are calculator, wikipedia`)

	for _, bad := range []string{"wikipedia=ftp://x", "wikipedia=", "calculator=http://x"} {
		_, err = langchain.Tools(langchain.Config{Names: []string{bad}, HTTP: guarded(t)})
		require.ErrorContains(t, err, "LANGCHAIN_TOOLS", bad)
	}

	none, err := langchain.Tools(langchain.Config{})
	require.NoError(t, err)
	require.Empty(t, none)
}

// odd is a tool that does whatever a test wants.
type odd struct {
	name string
	call func(context.Context, string) (string, error)
}

func (o odd) Name() string                                           { return o.name }
func (o odd) Description() string                                    { return "\n\t An odd tool.\n" }
func (o odd) Call(ctx context.Context, input string) (string, error) { return o.call(ctx, input) }

func TestAdapt_anyTool(t *testing.T) {
	t.Parallel()

	hang := make(chan struct{})

	t.Cleanup(func() { close(hang) })
	set := registry(t,
		langchain.Adapt(
			odd{"My Süper tool!!", func(_ context.Context, in string) (string, error) { return "got " + in + "\xff\x00", nil }},
			langchain.Options{Acts: true},
		),
		langchain.Adapt(odd{"panics", func(context.Context, string) (string, error) { panic("no") }}, langchain.Options{}),
		langchain.Adapt(
			odd{"fails", func(context.Context, string) (string, error) { return "", errors.New("dial tcp 10.0.0.7:80: refused") }},
			langchain.Options{},
		),
		langchain.Adapt(
			odd{"deaf", func(context.Context, string) (string, error) { <-hang; return "", nil }},
			langchain.Options{Timeout: 50 * time.Millisecond},
		),
		langchain.Adapt(
			odd{strings.Repeat("long", 40), func(context.Context, string) (string, error) { return strings.Repeat("x", 200), nil }},
			langchain.Options{},
		),
		langchain.Adapt(odd{"日本", func(context.Context, string) (string, error) { return "", nil }}, langchain.Options{}),
	)
	tool, known := set.Lookup("My_S_per_tool")
	require.True(t, known)
	require.True(t, tool.Acts)
	require.Equal(t, "My Süper tool!!", tool.DisplayName)
	require.Equal(t, "An odd tool.", tool.Spec.Description)
	require.Equal(t, "My_S_per_tool: what", set.Summary("My_S_per_tool", `{"input": "what"}`))
	require.Equal(t, "got a \"b\"\ufffd\ufffd", call(t, set, "My_S_per_tool", `a "b"`).Output)

	for _, name := range []string{"panics", "fails"} {
		result := call(t, set, name, "x")
		require.True(t, result.IsError)
		require.NotContains(t, result.Output, "10.0.0.7")
	}

	result := call(t, set, "deaf", "x")
	require.Contains(t, result.Output, "took longer than 50ms")
	require.Contains(t, call(t, set, strings.Repeat("long", 16), "x").Output, "xxx")
	require.Equal(t, "(No output.)", call(t, set, "Tool", "x").Output)

	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)

	_, err := try(ctx, set, "deaf", "x")
	require.ErrorIs(t, err, stopped)
}
