package mcp

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// policies are Policies that a test changes; nil cannot be read.
type policies struct {
	atomic.Pointer[domain.NetworkPolicy]
}

func (p *policies) set(mode domain.NetworkMode, denied ...string) {
	var rules []domain.PermissionRule
	for _, host := range denied {
		rules = append(rules, domain.PermissionRule{Tool: domain.NetworkTool, Pattern: host, Decision: domain.PermissionDeny})
	}

	policy := domain.NewNetworkPolicy(mode, rules)
	p.Store(&policy)
}

func (p *policies) SessionPolicy(context.Context, domain.SessionID) (domain.NetworkPolicy, error) {
	if policy := p.Load(); policy != nil {
		return *policy, nil
	}

	return domain.NetworkPolicy{}, errors.New("the database is unavailable")
}

// hangingServer returns a server with one tool, whose calls wait until their client leaves.
func hangingServer(entered chan<- struct{}) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "hanging", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "hang", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			entered <- struct{}{}

			<-ctx.Done()

			return nil, ctx.Err()
		})

	return server
}

func TestManager_followsNetworkPolicy(t *testing.T) {
	t.Parallel()

	for name, refuse := range map[string]func(*policies){
		"none": func(p *policies) { p.set(domain.NetworkNone) },
		"deny": func(p *policies) { p.set(domain.NetworkPublic, "127.0.0.1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			policy := &policies{}
			policy.set(domain.NetworkRules)

			w := newEnv(t, func(c *Config) { c.Policies = policy })

			var requests atomic.Int64

			entered := make(chan struct{}, 1)
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return hangingServer(entered) }, nil)
			front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				handler.ServeHTTP(rw, r)
			}))
			t.Cleanup(front.Close)
			t.Cleanup(front.CloseClientConnections)
			t.Cleanup(w.manager.Close)

			trusted := func(s *toolserver.Record) { s.Trusted = true }
			ofService := func(s *toolserver.Record) { s.Scope = toolserver.OfService }

			w.add(domain.MCPServer{Name: "mine", Transport: toolserver.HTTP, URL: front.URL}, trusted)
			w.add(domain.MCPServer{Name: "shared", Transport: toolserver.HTTP, URL: front.URL}, trusted, ofService)

			both := []string{"mcp__mine__hang", "mcp__shared__hang"}
			known := &KnownTools{Store: w.store, Policies: policy, Logger: slog.New(slog.DiscardHandler)}

			offered := w.atFirst(2)
			require.ElementsMatch(t, both, slices.Collect(maps.Keys(offered)), "a domain without a rule: its owner named it")

			ended := make(chan tools.Result, 1)

			go func() {
				result, _ := offered["mcp__mine__hang"].Run(context.Background(), newCall(`{}`))
				ended <- result
			}()

			<-entered
			refuse(policy)
			require.True(t, (<-ended).IsError, "the open connection is closed")

			require.Equal(t, []string{"mcp__shared__hang"}, slices.Collect(maps.Keys(w.offered())))
			require.Len(t, known.Tools(t.Context(), tools.Scope{Session: session}), 1)
			require.Eventually(t, func() bool { return w.store.state("mine").Status == toolserver.Failed }, soon, tick)
			require.Contains(t, w.store.state("mine").Error, "this session")
			require.NotEmpty(t, w.store.state("mine").Tools)

			before := requests.Load()
			result, err := offered["mcp__mine__hang"].Run(t.Context(), newCall(`{}`))
			require.NoError(t, err)
			require.True(t, result.IsError)
			require.Contains(t, result.Output, "Not carried out")
			require.Equal(t, before, requests.Load(), "the server is not asked")

			policy.set(domain.NetworkPublic, "example.org")
			require.ElementsMatch(t, both, slices.Collect(maps.Keys(w.offered())), "allowed again")

			policy.Store(nil)
			require.Empty(t, w.offered(), "without a policy that can be read nothing is offered")
		})
	}
}

// TestManager_endsRefusedConnection holds that nothing waits for a refused connection on which
// the server has opened no stream.
func TestManager_endsRefusedConnection(t *testing.T) {
	t.Parallel()

	policy := &policies{}
	policy.set(domain.NetworkRules)

	w := newEnv(t, func(c *Config) { c.Policies = policy })
	w.http("plain", answering(nil))
	w.tool("mcp__plain__act")

	policy.set(domain.NetworkNone)
	require.Empty(t, w.offered())

	closed := make(chan struct{})

	go func() {
		defer close(closed)

		w.manager.Close()
	}()

	select {
	case <-closed:
	case <-time.After(soon):
		require.FailNow(t, "the manager waits for the refused connection")
	}
}
