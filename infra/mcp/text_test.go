package mcp

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestToolNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "mcp__files__read_file", toolName("files", "read_file"))
	require.Equal(t, toolName("a", "x.y"), toolName("a", "x.y"))

	different := map[string]bool{}

	long := strings.Repeat("n", 64)
	for _, pair := range [][2]string{
		{"a", "x.y"},
		{"a", "x_y"},
		{"a", "x y"},
		{"a__b", "c"},
		{"a", "b__c"},
		{
			"a_",
			"b",
		},
		{"a", "_b"},
		{"a", long},
		{"a", long + "1"},
		{long, "t"},
		{long, long},
		{long[:63] + "m", long},
		{"a", "ä"},
		{"a", "ö"},
	} {
		name := toolName(pair[0], pair[1])
		require.False(t, different[name], name)
		different[name] = true
	}

	valid := regexp.MustCompile(`^mcp__[a-zA-Z0-9_-]+__[a-zA-Z0-9_-]*$`)

	rapid.Check(t, func(t *rapid.T) {
		server := rapid.StringMatching(`[a-z0-9_-]{1,64}`).Draw(t, "server")
		tool := rapid.String().Draw(t, "tool")

		name := toolName(server, tool)
		if len(name) > maxToolName || !valid.MatchString(name) {
			t.Fatalf("%q", name)
		}
	})
}

func TestCleanText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\nb\tc", cleanText("  a\r\nb\tc\x00\x1b\u202e\u200b\U000E0041 ", 100))
	require.Equal(t, "abc…", cleanText("abcdef", 4))
	require.Equal(t, "äöü…", cleanText(strings.Repeat("äöü", 1<<20), 4))
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 50).Draw(t, "limit")

		out := cleanText(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")), limit)
		if !utf8.ValidString(out) || utf8.RuneCountInString(out) > limit {
			t.Fatalf("%q", out)
		}
	})
}
