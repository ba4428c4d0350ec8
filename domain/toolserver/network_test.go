package toolserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
)

func TestRecord_Refusal(t *testing.T) {
	t.Parallel()

	const (
		noNetwork = "this session has no network"
		denied    = "the network rules of this session do not allow its host"
	)

	rule := func(domainName string, decision domain.PermissionDecision) []domain.PermissionRule {
		return []domain.PermissionRule{{Tool: domain.NetworkTool, Pattern: domainName, Decision: decision}}
	}

	for name, c := range map[string]struct {
		url    string
		policy domain.NetworkPolicy
		want   string
	}{
		"none":         {"https://tools.example.org/mcp", domain.NewNetworkPolicy(domain.NetworkNone, nil), noNetwork},
		"no policy":    {"https://tools.example.org/mcp", domain.NetworkPolicy{}, noNetwork},
		"no rule":      {"https://tools.example.org/mcp", domain.NewNetworkPolicy(domain.NetworkRules, nil), ""},
		"public":       {"https://tools.example.org/mcp", domain.NewNetworkPolicy(domain.NetworkPublic, nil), ""},
		"another port": {"https://tools.example.org:8443/mcp", domain.NewNetworkPolicy(domain.NetworkRules, nil), ""},
		"allow": {
			"https://tools.example.org/mcp", domain.NewNetworkPolicy(domain.NetworkRules, rule("tools.example.org", "allow")), "",
		},
		"deny": {
			"https://tools.example.org/mcp", domain.NewNetworkPolicy(domain.NetworkRules, rule("tools.example.org", "deny")), denied,
		},
		"deny below": {
			"https://tools.example.org/mcp", domain.NewNetworkPolicy(domain.NetworkRules, rule("*.example.org", "deny")), denied,
		},
		"deny another": {
			"https://tools.example.org/mcp", domain.NewNetworkPolicy(domain.NetworkRules, rule("example.org", "deny")), "",
		},
		"deny, other port": {
			"https://tools.example.org:8443/", domain.NewNetworkPolicy(domain.NetworkPublic, rule("tools.example.org", "deny")), denied,
		},
		"deny all": {"https://tools.example.org/mcp", domain.NewNetworkPolicy(domain.NetworkPublic, rule("", "deny")), noNetwork},
		"deny, other case": {
			"https://TOOLS.example.org./", domain.NewNetworkPolicy(domain.NetworkRules, rule("tools.example.org", "deny")), denied,
		},
		"deny an address": {
			"http://93.184.215.14/mcp", domain.NewNetworkPolicy(domain.NetworkRules, rule("93.184.215.14", "deny")), denied,
		},
		"host of no domain": {"http://0x7f.1/mcp", domain.NewNetworkPolicy(domain.NetworkPublic, nil), "its URL cannot be used"},
	} {
		server := domain.MCPServer{Name: "s", Transport: toolserver.HTTP, URL: c.url}

		for _, scope := range []toolserver.Scope{toolserver.OfSession, toolserver.OfSolution} {
			require.Equal(t, c.want, toolserver.Record{MCPServer: server, ID: "1", Scope: scope}.Refusal(c.policy), "%s: %s", name, scope)
			require.Equal(t, c.want, toolserver.Record{MCPServer: server, ID: "1", Scope: scope, Trusted: true}.Refusal(c.policy), name)
		}

		require.Empty(t, toolserver.Record{MCPServer: server, ID: "1", Scope: toolserver.OfService}.Refusal(c.policy), name)
		require.Empty(t, toolserver.WithConfigured(nil, []domain.MCPServer{server})[0].Refusal(c.policy), "%s: of a solution's files", name)

		server.Transport = toolserver.Stdio
		require.Empty(t, toolserver.Record{MCPServer: server, ID: "1", Scope: toolserver.OfSession}.Refusal(c.policy), name)
	}
}
