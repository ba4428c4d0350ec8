package domain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCanonicalHost(t *testing.T) {
	t.Parallel()

	for in, want := range map[string]string{
		"Example.ORG": "example.org", "example.org.": "example.org", "bücher.example": "xn--bcher-kva.example", "１２７.0.0.1": "127.0.0.1",
		"::ffff:127.0.0.1": "127.0.0.1", "2606:4700::1111": "2606:4700::1111", "_dmarc.example.org": "_dmarc.example.org",
	} {
		got, err := CanonicalHost(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}

	for _, odd := range []string{"0x7f.1", "2130706433", "127.1", "0177.0.0.01", "0x7f000001", "127.0.0.1.", "1.2.3.4.5", "0x"} {
		_, err := CanonicalHost(odd)
		if odd == "127.0.0.1." {
			require.NoError(t, err) // the guard looks at the address
			continue
		}

		require.ErrorIs(t, err, ErrOddAddress, odd)
	}

	for _, bad := range []string{
		"", ".", "a..b", "a b", "exa\x00mple", strings.Repeat("a", 64) + ".org", strings.Repeat("a.", 130) + "org",
		"a/b", "a@b",
	} {
		_, err := CanonicalHost(bad)
		require.ErrorIs(t, err, ErrNoHostName, "%q", bad)
	}
}

func TestParseNetworkRule(t *testing.T) {
	t.Parallel()

	for in, want := range map[string]NetworkRule{
		"Example.org.":           {Host: "example.org"},
		"*.example.org":          {Host: "example.org", Below: true},
		"*.example.org:8443":     {Host: "example.org", Below: true, Port: 8443},
		"93.184.215.14":          {Host: "93.184.215.14"},
		"2606:4700::1111":        {Host: "2606:4700::1111"},
		"[2606:4700::1111]:8443": {Host: "2606:4700::1111", Port: 8443},
		"mirror":                 {Host: "mirror"},
	} {
		got, err := ParseNetworkRule(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
		again, err := ParseNetworkRule(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}

	for _, bad := range []string{
		"", "*", "*.org", "*.10.0.0.1", "https://example.org", "example.org/path", "example.org:", "example.org:0", "example.org:65536",
		"example.org:http", "*example.org", "a.*.org", "0x7f.1", "a b", strings.Repeat("a.", 1500) + "org",
	} {
		_, err := ParseNetworkRule(bad)
		require.Error(t, err, bad)
	}
}

func TestNetworkPolicy_Refusal(t *testing.T) {
	t.Parallel()

	rules := []PermissionRule{
		{Tool: NetworkTool, Pattern: "example.org", Decision: PermissionAllow},
		{Tool: NetworkTool, Pattern: "*.example.net", Decision: PermissionAllow},
		{Tool: NetworkTool, Pattern: "example.com:8443", Decision: PermissionAllow},
		{Tool: NetworkTool, Pattern: "93.184.215.14", Decision: PermissionAllow},
		{Tool: NetworkTool, Pattern: "evil.example.net", Decision: PermissionDeny},
		{Tool: "*", Decision: PermissionAllow}, // speaks of calls
	}

	policy := NewNetworkPolicy(NetworkRules, rules)
	for _, allowed := range []struct {
		host string
		port uint16
	}{
		{"example.org", 443},
		{"example.org", 80},
		{"example.org", 22},
		{"a.example.net", 443},
		{"a.b.example.net", 443},
		{"example.com", 8443},
		{"93.184.215.14", 443},
	} {
		require.Empty(t, policy.Refusal(allowed.host, allowed.port), allowed)
	}

	for _, refused := range []struct {
		host string
		port uint16
	}{
		{"example.org", 8443},
		{"sub.example.org", 443},
		{"example.net", 443},
		{"badexample.net", 443},
		{"example.com", 443},
		{"93.184.215.15", 443},
		{"evil.example.net", 443},
		{"evil.example.net", 9000},
		{"example.org.evil.test", 443},
	} {
		require.NotEmpty(t, policy.Refusal(refused.host, refused.port), refused)
	}

	require.NotEmpty(t, NetworkPolicy{}.Refusal("example.org", 443), "no mode is no network")
	require.NotEmpty(t, NewNetworkPolicy(NetworkNone, rules).Refusal("example.org", 443))

	public := NewNetworkPolicy(NetworkPublic, rules)
	require.Empty(t, public.Refusal("anything.test", 443))
	require.Empty(t, public.Refusal("anything.test", 8080))
	require.NotEmpty(t, public.Refusal("anything.test", 25))
	require.NotEmpty(t, public.Refusal("evil.example.net", 443))

	every := NewNetworkPolicy(NetworkRules, []PermissionRule{{Tool: NetworkTool, Decision: PermissionAllow}})
	require.Empty(t, every.Refusal("anything.test", 443))
	require.NotEmpty(t, every.Refusal("93.184.215.14", 443), "an address only by a rule of its own")

	denied := NewNetworkPolicy(NetworkPublic, []PermissionRule{{Tool: NetworkTool, Decision: PermissionDeny}})
	require.NotEmpty(t, denied.Refusal("anything.test", 443))
}

func TestNetworkMode_Narrowed(t *testing.T) {
	t.Parallel()
	require.Equal(t, NetworkRules, NetworkRules.Narrowed(""))
	require.Equal(t, NetworkRules, NetworkRules.Narrowed(NetworkPublic))
	require.Equal(t, NetworkNone, NetworkPublic.Narrowed(NetworkNone))
	require.Equal(t, NetworkNone, NetworkNone.Narrowed(NetworkPublic))
}

func FuzzParseNetworkRule(f *testing.F) {
	for _, seed := range []string{"example.org", "*.example.org:1", "[::1]:2", "０x7f.1", "a..b"} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, pattern string) {
		rule, err := ParseNetworkRule(pattern)
		if err != nil {
			return
		}

		again, err := ParseNetworkRule(rule.String())
		require.NoError(t, err)
		require.Equal(t, rule, again)
	})
}

func TestNewNetworkRule_belowPublicSuffix(t *testing.T) {
	t.Parallel()

	for _, wide := range []string{
		"*.co.uk", "*.github.io", "*.s3.amazonaws.com", "*.GitHub.io.", "*.github.io:8443", "*.pages.dev", "*.com.br",
	} {
		_, err := NewNetworkRule(wide, PermissionAllow)
		require.ErrorContains(t, err, "anyone can have a name below", wide)

		_, err = NewNetworkRule(wide, PermissionDeny)
		require.NoError(t, err, "a rule that denies may be wide")
	}

	for _, narrow := range []string{
		"*.example.org", "*.ann.github.io", "ann.github.io", "github.io", "*.example.co.uk", "raw.githubusercontent.com",
	} {
		_, err := NewNetworkRule(narrow, PermissionAllow)
		require.NoError(t, err, narrow)
	}
}
