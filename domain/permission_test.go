package domain_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestDecide(t *testing.T) {
	t.Parallel()

	rules := []domain.PermissionRule{
		{Tool: "Bash", Pattern: "git status*", Decision: domain.PermissionAllow},
		{Tool: "Bash", Pattern: "git *", Decision: domain.PermissionAsk},
		{Tool: "Bash", Pattern: "rm -rf*", Decision: domain.PermissionDeny},
		{Tool: "Write", Pattern: "*.env", Decision: domain.PermissionDeny},
		{Tool: "Bash", Pattern: "curl https://*", Decision: domain.PermissionDeny},
		{Tool: "mcp__*", Decision: domain.PermissionAsk},
		{Tool: "WebFetch", Pattern: "https://*.example.org/*", Decision: domain.PermissionAllow},
		{Tool: "WebFetch", Decision: domain.PermissionDeny},
	}

	for _, c := range []struct{ tool, subject, value, want string }{
		{"Bash", "command", "ls -l", "allow"},
		{"Bash", "command", "git status --short", "allow"},
		{"Bash", "command", "git push origin main", "ask"},
		{"Bash", "command", "cd src && git push", "ask"},
		{"Bash", "command", "git status; rm -rf /", "deny"},
		{"Bash", "command", "echo $(git push)", "ask"},
		{"Bash", "command", "true\nrm -rf x", "deny"},
		{"Bash", "command", "git status && git push && rm -rf .", "deny"},
		{"Bash", "command", "curl https://a.test/b", "deny"},
		{"Write", "file_path", "config/prod.env", "deny"},
		{"Write", "file_path", "config/prod.env.txt", "allow"},
		{"mcp__files__write", "x", "y", "ask"},
		{"WebFetch", "url", "https://docs.example.org/a", "allow"},
		{"WebFetch", "url", "https://evil.test/?x=.example.org/", "deny"},
		{"Read", "file_path", "a", "allow"},
	} {
		arguments, err := json.Marshal(map[string]string{c.subject: c.value})
		require.NoError(t, err)
		require.EqualValues(t, c.want, domain.Decide(rules, c.tool, arguments), "%s %s", c.tool, c.value)
	}

	require.Equal(t, domain.PermissionAllow, domain.Decide(nil, "Bash", nil))
	require.Equal(t, domain.PermissionAsk, domain.Decide(rules, "mcp__a__b", json.RawMessage(`{"broken`)))

	// Many stars take no time that grows beyond the text.
	hostile := []domain.PermissionRule{{Tool: "Bash", Pattern: strings.Repeat("*a", 900) + "b", Decision: domain.PermissionDeny}}
	long, err := json.Marshal(map[string]string{"command": strings.Repeat("a", 100_000)})
	require.NoError(t, err)
	require.Equal(t, domain.PermissionAllow, domain.Decide(hostile, "Bash", long))
}
