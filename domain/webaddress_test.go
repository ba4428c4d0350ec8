package domain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMentionsAddress(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		text, address string
		want          bool
	}{
		{"read https://example.org/a, please", "https://example.org/a", true},
		{"read https://example.org/a.", "https://example.org/a", true},
		{"(https://example.org/a)", "https://example.org/a", true},
		{"[a](https://example.org/a) b", "https://example.org/a", true},
		{`{"url": "https://example.org/a?b=c"}`, "https://example.org/a?b=c", true},
		{`{\"url\": \"https://example.org/a\"}`, "https://example.org/a", true},
		{"https://example.org/a#part", "https://example.org/a", true},
		{"https://example.org/a#part", "https://example.org/a#part", true},
		{"https://example.org/a", "https://example.org/a#part", true},
		{"see https://example.org", "https://example.org/", true},
		{"see https://example.org/", "https://example.org", true},
		{"https://example.org/a and https://example.org/", "https://example.org/", true},
		{"https://en.example.org/wiki/A_(b)", "https://en.example.org/wiki/A_(b)", true},
		{"https://example.org/a", "https://example.org/", false},
		{"https://example.org/a", "https://example.org/a/b", false},
		{"https://example.org/ab", "https://example.org/a", false},
		{"https://example.org/a?b=c", "https://example.org/a", false},
		{"https://example.org/a", "https://example.org/a?b=c", false},
		{"https://example.org/?d=", "https://example.org/?d=secret", false},
		{"https://example.org.evil.test/", "https://example.org", false},
		{"https://example.org:8443/", "https://example.org", false},
		{"https://other.test/https://example.org/a", "https://example.org/a", false},
		{"https://example.org/a", "http://example.org/a", false},
		{"nothing", "", false},
		{"nothing", "nothing", false},
	} {
		require.Equal(t, c.want, MentionsAddress(c.text, c.address), "%q in %q", c.address, c.text)
	}
}
