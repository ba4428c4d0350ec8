package builtin

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/questions"
	"everloop/domain"
)

// policy is what the session of a test may connect to.
type policy domain.NetworkPolicy

func (p policy) NetworkPolicy(context.Context, domain.SessionID) (domain.NetworkPolicy, error) {
	return domain.NetworkPolicy(p), nil
}

func (p policy) AddressNamed(_ context.Context, _ domain.SessionID, address string) (bool, error) {
	return address == namedPage, nil
}

func (p policy) ToolDecision(_ context.Context, _ domain.SessionID, _ string, arguments json.RawMessage) (
	domain.PermissionDecision, error,
) {
	if strings.Contains(string(arguments), "/private/") {
		return domain.PermissionDeny, nil
	}

	return domain.PermissionAllow, nil
}

// namedPage is the address that the user of a test wrote.
const namedPage = "https://named.example/page"

func networkTools(t *testing.T, mode domain.NetworkMode, rules ...domain.PermissionRule) *tools.Registry {
	t.Helper()

	r, err := New(tools.Deps{Network: mode, Policies: policy(domain.NewNetworkPolicy(mode, rules))})
	require.NoError(t, err)

	return r
}

func TestRequestAccess_offered(t *testing.T) {
	t.Parallel()

	offered := func(mode domain.NetworkMode, s tools.Scope) bool {
		for _, spec := range networkTools(t, mode).For(t.Context(), s).Offered() {
			if spec.Name == questions.RequestAccess {
				return true
			}
		}

		return false
	}
	executing := tools.Scope{Mode: domain.ModeExecuting}
	require.True(t, offered(domain.NetworkRules, executing))
	require.True(
		t,
		offered(domain.NetworkRules, tools.Scope{Mode: domain.ModeExecuting, Headless: true}),
		"it is denied there, and the result says so",
	)
	require.False(t, offered(domain.NetworkRules, tools.Scope{Mode: domain.ModePlanning}))
	require.False(t, offered(domain.NetworkNone, executing))
	require.False(t, offered(domain.NetworkPublic, executing))
	narrowed := executing
	narrowed.Session.Setup.Network = domain.NetworkNone
	require.False(t, offered(domain.NetworkRules, narrowed))
}

func TestRequestAccess_arguments(t *testing.T) {
	t.Parallel()
	set := networkTools(t, domain.NetworkRules).For(t.Context(), tools.Scope{Mode: domain.ModeExecuting})

	many, _ := json.Marshal(map[string]any{
		"domains": strings.Split(strings.Repeat("example.org,", domain.MaxAccessRequests)+"example.org", ","), "reason": "x",
	})
	for _, bad := range []string{
		`{}`, `{"domains": [], "reason": "x"}`, `{"domains": ["example.org"]}`, `{"domains": ["https://example.org"], "reason": "x"}`,
		`{"domains": ["*"], "reason": "x"}`, `{"domains": ["*.org"], "reason": "x"}`, `{"domains": ["0x7f.1"], "reason": "x"}`,
		string(many),
	} {
		_, _, refused := set.Admit(questions.RequestAccess, bad)
		require.NotNil(t, refused, bad)
	}

	_, _, refused := set.Admit(questions.RequestAccess, `{"domains": [" *.Example.org:8443 "], "reason": "x"}`)
	require.Nil(t, refused)
}

func TestRequestAccess_Run_listsAllowedAndDenied(t *testing.T) {
	t.Parallel()
	r := networkTools(t, domain.NetworkRules,
		domain.PermissionRule{Tool: domain.NetworkTool, Pattern: "*.example.org", Decision: domain.PermissionAllow},
		domain.PermissionRule{Tool: domain.NetworkTool, Pattern: "bad.example.org", Decision: domain.PermissionDeny})
	tool, _ := r.For(t.Context(), tools.Scope{}).Lookup(questions.RequestAccess)
	result, err := r.Run(
		t.Context(), tool,
		&tools.Call{
			Arguments: json.RawMessage(
				`{"domains": ["*.example.org", "good.example.org", "bad.example.org", "other.test"], "reason": "x"}`,
			),
		},
	)
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Contains(t, result.Output, "Allowed from now on: *.example.org, good.example.org.")
	require.Contains(t, result.Output, "bad.example.org, other.test.")
}
